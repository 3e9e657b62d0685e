/** A recording's text of one kind, or null. */
function find(app, recordingId, kind) {
  const params = { id: recordingId, kind: kind }
  const [found] = app.findRecordsByFilter(
    "transcripts", "recording = {:id} && kind = {:kind}", "", 1, 0, params,
  )
  return found || null
}

/** Write a recording's text of one kind, in the transaction of the outcome that brings it. */
function save(tx, recordingId, { kind, text, segments, language, engine }) {
  const found = find(tx, recordingId, kind)
  const record = found || new Record(tx.findCollectionByNameOrId("transcripts"))
  record.set("recording", recordingId)
  record.set("kind", kind)
  record.set("text", text)
  record.set("segments", segments)
  record.set("language", language)
  record.set("engine", engine)
  record.set("no_speech", text === "")
  tx.save(record) // a record's save, so that its sender hears of it by realtime
}

module.exports = { find, save }
