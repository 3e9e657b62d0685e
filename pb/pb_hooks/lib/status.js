// What a sender may know of its recording.

const { Refusal } = require(`${__hooks}/lib/errors.js`)
const operations = require(`${__hooks}/lib/operations.js`)

/** The public state of a recording. Somebody else's is as unknown as one that does not exist. */
function of(id, ownerId) {
  const rows = arrayOf(
    new DynamicModel({
      state: "", milestone: "", created: "", operation: "", has_text: false, text: "",
      no_speech: false, ours: "",
    }),
  )
  $app
    .db()
    .newQuery(
      `SELECT j.state, j.milestone, r.created, j.operation, t.id IS NOT NULL AS has_text,
         coalesce(t.text, '') AS text, coalesce(t.no_speech, 0) AS no_speech,
         coalesce((SELECT o.id FROM operations o
           WHERE o.recording = r.id AND o.recogniser <> ''), '') AS ours
       FROM recordings r JOIN jobs j ON j.recording = r.id
       LEFT JOIN transcripts t ON t.recording = r.id AND t.kind = 'raw'
       WHERE r.id = {:id} AND r.owner = {:owner} AND r.owner <> ''`,
    )
    .bind({ id: id, owner: ownerId })
    .all(rows)
  if (rows.length === 0) {
    throw new Refusal("not_found")
  }

  const [row] = rows
  const answer = {
    job_id: id,
    status: row.milestone,
    created_at: row.created.replace(" ", "T"), // RFC 3339
  }
  const halted = row.state === "failed" || row.state === "dead"
  if (halted) {
    answer.halted = true
  }
  // A remote recogniser that keeps nothing itself does its work before there is anything submitted.
  const works = row.milestone === "submitted" || (row.milestone === "normalized" && row.ours)
  if (works && !halted) {
    const operation = operations.find($app, row.ours || row.operation)
    if (operation) {
      answer.progress = operations.progress(operation)
    }
  }
  if (row.has_text) {
    answer.transcription_text = row.text
    if (row.no_speech) {
      answer.no_speech = true
    }
  }
  return answer
}

module.exports = { of }
