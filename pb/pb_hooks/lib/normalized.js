// A recording's files on their way to the workers and back.

const { Refusal, isOurDisk } = require(`${__hooks}/lib/errors.js`)
const form = require(`${__hooks}/lib/form.js`)
const operations = require(`${__hooks}/lib/operations.js`)
const queue = require(`${__hooks}/lib/queue.js`)
const store = require(`${__hooks}/lib/store.js`)
const { wake } = require(`${__hooks}/lib/wake.js`)

/** Stream a recording's `audio` or `normalized` file. */
function send(e, id, kind) {
  const rows = arrayOf(new DynamicModel({ audio: "", normalized: "" }))
  $app
    .db()
    .newQuery("SELECT audio, normalized FROM recordings WHERE id = {:id}")
    .bind({ id: id })
    .all(rows)
  const name = rows.length > 0 && (kind === "audio" || kind === "normalized") && rows[0][kind]
  if (!name) {
    throw new Refusal("not_found")
  }
  if (!store.stored(id, name)) {
    if (kind === "normalized") {
      // No engine can go on with it. Without its operation the recording is sent back by the next
      // check, and the audio made again.
      $app.runInTransaction((tx) => {
        operations.cancel(tx, "recording = {:id}", { id: id })
      })
    }
    throw new Refusal("not_found")
  }
  store.serve(e, id, name)
}

function known(id) {
  const rows = arrayOf(new DynamicModel({ id: "" }))
  $app.db().newQuery("SELECT id FROM recordings WHERE id = {:id}").bind({ id: id }).all(rows)
  return rows.length > 0
}

/** The form's file. */
function upload(e) {
  try {
    form.read(e)
    return e.findUploadedFiles("normalized")[0]
  } catch (error) {
    if (isOurDisk(error)) {
      throw error
    }
    throw new Refusal("bad_request") // no form, cut off, or without a file
  }
}

/**
 * Take the normalised audio in and advance its job, in one transaction under the claim's token.
 * The new file lies beside the old one until then, so that no crash leaves the record without one.
 */
function receive(e, id) {
  store.takeYourTime(e, 2 ** 40) // our own process, on the far side of any network
  const file = upload(e)
  const duration = parseFloat(e.request.formValue("duration"))
  const result = {
    id: id,
    lease_token: e.request.formValue("lease_token"),
    outcome: "advanced",
    to: "normalized",
  }
  if (!result.lease_token || !isFinite(duration) || duration < 0) {
    throw new Refusal("bad_request")
  }

  const name = `${$security.randomStringWithAlphabet(20, "abcdefghijklmnopqrstuvwxyz0123456789")}.flac`
  let previous = ""
  if (!known(id)) {
    throw new Refusal("not_found") // and no place to put a file in
  }
  store.put(file, id, name)
  try {
    $app.runInTransaction((tx) => {
      const written = queue.write(tx, result)
      if (!written) {
        throw new Refusal("lease_lost")
      }
      if (!written.now) {
        previous = name // the one that came with it stays
        return
      }
      const rows = arrayOf(new DynamicModel({ normalized: "" }))
      tx.nonconcurrentDB()
        .newQuery("SELECT normalized FROM recordings WHERE id = {:id}")
        .bind({ id: id })
        .all(rows)
      previous = rows.length > 0 ? rows[0].normalized : ""
      // These two columns and no others: the owner may be editing the rest.
      tx.nonconcurrentDB()
        .newQuery(
          "UPDATE recordings SET normalized = {:name}, duration = {:duration} WHERE id = {:id}",
        )
        .bind({ name: name, duration: duration, id: id })
        .execute()
    })
  } catch (error) {
    store.remove(id, name)
    throw error
  }
  if (previous && store.stored(id, previous)) {
    store.remove(id, previous)
  }
  wake("normalized")
  return {}
}

module.exports = { send, receive }
