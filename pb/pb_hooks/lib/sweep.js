// Files without a record. The grace time is longer than any upload stands between file and record.

const GRACE_HOURS = 2

/** Remove the folders of recordings that do not exist, once they are old enough. */
function sweep() {
  const collection = $app.findCollectionByNameOrId("recordings")
  const root = `${$app.dataDir()}/storage/${collection.id}`
  let folders = []
  try {
    folders = $os.readDir(root)
  } catch {
    return // nothing was ever stored
  }
  const oldEnough = Date.now() - GRACE_HOURS * 3600 * 1000
  let removed = 0
  for (const folder of folders) {
    const id = folder.name()
    if (folder.info().modTime().unixMilli() > oldEnough) {
      continue
    }
    const known = $app.countRecords("recordings", $dbx.hashExp({ id: id }))
    if (known === 0) {
      require(`${__hooks}/lib/store.js`).remove(id)
      removed += 1
    }
  }
  if (removed > 0) {
    $app.logger().info("stored files without a recording removed", "count", removed)
  }
}

module.exports = { sweep }
