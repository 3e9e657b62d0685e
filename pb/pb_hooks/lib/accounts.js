// The accounts that a first start makes.

const config = require(`${__hooks}/lib/config.js`)

/** The owner, when there is no superuser yet. Later changes are made in the panel and stay. */
function owner(app) {
  if (!config.ownerEmail() || !config.ownerPassword() || app.countRecords("_superusers") > 0) {
    return
  }
  const record = new Record(app.findCollectionByNameOrId("_superusers"))
  record.setEmail(config.ownerEmail())
  record.setPassword(config.ownerPassword())
  app.save(record)
}

/** The account of the Python processes. Its password follows the setting. */
function workers(app) {
  const password = config.workerPassword()
  if (!password) {
    return
  }
  const [found] = app.findRecordsByFilter("workers", "email = 'workers@transcriber.local'", "", 1)
  if (found && found.validatePassword(password)) {
    return
  }
  const record = found || new Record(app.findCollectionByNameOrId("workers"))
  record.setEmail("workers@transcriber.local")
  record.setVerified(true)
  record.setPassword(password)
  app.save(record)
}

module.exports = { owner, workers }
