// Operations whose recordings are gone, or given up, while a recogniser elsewhere is still at them: it
// would keep their results for days. Who has its key removes them as soon as it can.

const { NOW, AFTER } = require(`${__hooks}/lib/leases.js`)

// Recognisers that keep results of their own accord.
const KEEPS = ["speechkit:"]

const AGAIN = 60 // seconds until one that could not be removed yet is tried again
const LONGEST = 100 // hours, after which what there is left has gone by itself

/** Remember an operation, if there is anything to remove. True when there is. */
function note(app, operation) {
  if (!KEEPS.some((prefix) => operation.startsWith(prefix))) {
    return false
  }
  app
    .nonconcurrentDB()
    .newQuery(
      `INSERT INTO leftovers (operation, created) VALUES ({:operation}, ${NOW})
       ON CONFLICT (operation) DO NOTHING`,
    )
    .bind({ operation: operation })
    .execute()
  return true
}

/** Those to be removed now, each given out once a minute. */
function claim() {
  $app
    .nonconcurrentDB()
    .newQuery(`DELETE FROM leftovers WHERE created < ${AFTER("longest")}`)
    .bind({ longest: -LONGEST * 3600 })
    .execute()
  const rows = arrayOf(new DynamicModel({ operation: "" }))
  $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE leftovers SET not_before = ${AFTER("again")}
       WHERE id IN (SELECT id FROM leftovers WHERE not_before <= ${NOW} ORDER BY not_before LIMIT 20)
       RETURNING operation`,
    )
    .bind({ again: AGAIN })
    .all(rows)
  return Array.from(rows).map((row) => row.operation)
}

/** One is removed. */
function removed(operation) {
  $app
    .nonconcurrentDB()
    .newQuery("DELETE FROM leftovers WHERE operation = {:operation}")
    .bind({ operation: operation })
    .execute()
}

module.exports = { note, claim, removed }
