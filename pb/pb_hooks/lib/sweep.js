// What a crash may leave: files that no record names, operations that no job waits for.

const { AFTER } = require(`${__hooks}/lib/queue.js`)

// Longer than anything stands between a file and its record, or an operation and its job.
const GRACE_HOURS = 2

/** Remove what nothing knows, once it is old enough. */
function sweep() {
  const files = sweepFiles(Date.now() - GRACE_HOURS * 3600 * 1000)
  const operations = sweepOperations()
  if (files > 0 || operations > 0) {
    $app.logger().info("leftovers removed", "files", files, "operations", operations)
  }
}

function sweepFiles(oldEnough) {
  const store = require(`${__hooks}/lib/store.js`)
  const known = namesByRecording()
  const root = `${$app.dataDir()}/storage/${$app.findCollectionByNameOrId("recordings").id}`
  const old = (entry) => entry.info().modTime().unixMilli() < oldEnough
  let removed = 0
  for (const folder of entries(root)) {
    const names = known[folder.name()]
    if (!names) {
      if (old(folder)) {
        store.remove(folder.name())
        removed += 1
      }
      continue
    }
    for (const file of entries(`${root}/${folder.name()}`)) {
      const name = file.name()
      if (!name.endsWith(".attrs") && !names.includes(name) && old(file)) {
        store.remove(folder.name(), name)
        removed += 1
      }
    }
  }
  return removed
}

function namesByRecording() {
  const rows = arrayOf(new DynamicModel({ id: "", audio: "", normalized: "" }))
  $app.db().newQuery("SELECT id, audio, normalized FROM recordings").all(rows)
  const known = {}
  for (const row of rows) {
    known[row.id] = [row.audio, row.normalized]
  }
  return known
}

function entries(folder) {
  try {
    return $os.readDir(folder)
  } catch {
    return [] // nothing was ever stored there, or it went meanwhile
  }
}

function sweepOperations() {
  const where = `updated < ${AFTER("grace")} AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE jobs.id = operations.recording
      AND jobs.state IN ('normalized', 'submitted'))`
  let before = 0
  $app.runInTransaction((tx) => {
    const rows = arrayOf(new DynamicModel({ n: 0 }))
    const params = { grace: -GRACE_HOURS * 3600 }
    tx.db().newQuery(`SELECT count(*) AS n FROM operations WHERE ${where}`).bind(params).all(rows)
    before = rows[0].n
    require(`${__hooks}/lib/operations.js`).cancel(tx, where, params)
  })
  return before
}

module.exports = { sweep }
