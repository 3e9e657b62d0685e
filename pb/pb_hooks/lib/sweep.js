// What a crash may leave: files that no record names, operations that no job waits for.

const { kernelsWord } = require(`${__hooks}/lib/errors.js`)
const { AFTER } = require(`${__hooks}/lib/leases.js`)
const operations = require(`${__hooks}/lib/operations.js`)
const store = require(`${__hooks}/lib/store.js`)

// Longer than anything stands between a file and its record, or an operation and its job.
const GRACE_HOURS = 2
// Recordings whose names are held in memory at once: there may be a million.
const TOGETHER = 500

/** Remove what nothing knows, once it is old enough. */
function sweep() {
  const files = sweepFiles(Date.now() - GRACE_HOURS * 3600 * 1000)
  const forgotten = sweepOperations()
  if (files > 0 || forgotten > 0) {
    $app.logger().info("leftovers removed", "files", files, "operations", forgotten)
  }
}

function sweepFiles(oldEnough) {
  const root = `${$app.dataDir()}/storage/${$app.findCollectionByNameOrId("recordings").id}`
  const folders = entries(root)
  let removed = 0
  for (let at = 0; at < folders.length; at += TOGETHER) {
    // What is younger than this look is younger than the grace time as well.
    const some = folders.slice(at, at + TOGETHER)
    const known = namesByRecording(some.map((folder) => folder.name()))
    for (const folder of some) {
      try {
        removed += sweepFolder(root, folder, known[folder.name()], oldEnough)
      } catch (error) {
        // It keeps no other leftover. A folder that is not ours may be called anything.
        const id = folder.name() in known ? folder.name() : ""
        $app.logger().error("leftover not removed", "job_id", id, "reason", kernelsWord(error))
      }
    }
  }
  return removed
}

function sweepFolder(root, folder, names, oldEnough) {
  const old = (entry) => {
    try {
      return entry.info().modTime().unixMilli() < oldEnough
    } catch {
      return false // it went meanwhile
    }
  }
  if (!names) {
    if (!old(folder)) {
      return 0
    }
    store.remove(folder.name())
    return 1
  }
  const leftovers = entries(`${root}/${folder.name()}`).filter(
    (file) => !file.name().endsWith(".attrs") && !names.includes(file.name()) && old(file),
  )
  for (const file of leftovers) {
    store.remove(folder.name(), file.name())
  }
  return leftovers.length
}

function namesByRecording(ids) {
  const rows = arrayOf(new DynamicModel({ id: "", audio: "", normalized: "" }))
  $app
    .db()
    .newQuery(
      `SELECT id, audio, normalized FROM recordings INDEXED BY sqlite_autoindex_recordings_1
       WHERE id IN (SELECT value FROM json_each({:ids}))`,
    )
    .bind({ ids: JSON.stringify(ids) })
    .all(rows)
  const known = Object.create(null) // no folder is called as something of an Object's
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
    operations.cancel(tx, where, params)
  })
  return before
}

module.exports = { sweep }
