const { checked } = require(`${__hooks}/lib/body.js`)
const { Refusal } = require(`${__hooks}/lib/errors.js`)

const KINDS = ["raw", "proofread"]

/** A recording's text of one kind, or null. */
function find(app, recordingId, kind) {
  const params = { id: recordingId, kind: kind }
  const [found] = app.findRecordsByFilter(
    "transcripts", "recording = {:id} && kind = {:kind}", "", 1, 0, params,
  )
  return found || null
}

/** What a sender is given. Somebody else's recording is as unknown as one that does not exist. */
function of(id, kind, ownerId) {
  if (!KINDS.includes(kind)) {
    throw new Refusal("bad_request", { ru: "неизвестный вид текста", en: "unknown kind of text" })
  }
  const own = { id: id, owner: ownerId }
  const [recording] = $app.findRecordsByFilter(
    "recordings", "id = {:id} && owner = {:owner} && owner != ''", "", 1, 0, own,
  )
  if (!recording) {
    throw new Refusal("not_found")
  }
  const found = find($app, id, kind)
  if (!found) {
    throw new Refusal("not_ready")
  }
  return {
    job_id: id,
    kind: kind,
    text: found.get("text"),
    segments: found.get("segments"),
    language: found.get("language"),
    engine: found.get("engine"),
  }
}

/** Write a recording's text of one kind, in the transaction of the outcome that brings it. */
function save(tx, recordingId, transcript) {
  const { kind, text, segments, language, engine } = checked(
    transcript,
    { kind: "name", text: "text", segments: "list", language: "text", engine: "text" },
  )
  const found = find(tx, recordingId, kind)
  const stale = kind === "raw" && find(tx, recordingId, "proofread")
  if (stale) {
    tx.delete(stale) // it corrected another text
  }
  const record = found || new Record(tx.findCollectionByNameOrId("transcripts"))
  record.set("recording", recordingId)
  record.set("kind", kind)
  record.set("text", text)
  record.set("segments", segments)
  record.set("language", language)
  record.set("engine", engine)
  record.set("no_speech", text === "")
  try {
    tx.validate(record)
  } catch (error) {
    // No absence of ours: whoever wrote it would wait for ever for the answer to become another.
    $app.logger().warn("text not stored", "job_id", recordingId, "reason", String(error))
    throw new Refusal("bad_request")
  }
  tx.saveNoValidate(record) // a record's save, so that its sender hears of it by realtime
}

module.exports = { find, of, save }
