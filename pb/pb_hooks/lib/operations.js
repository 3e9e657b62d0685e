// Operations: written under a lease's token like the queue's jobs, slice by slice. Those of the local
// recogniser (`recogniser` empty) are claimed by the engines; those of a remote one that keeps nothing
// itself are taken by whoever holds their job.

const { Refusal } = require(`${__hooks}/lib/errors.js`)
const { NOW, AFTER, NO_LEASE } = require(`${__hooks}/lib/leases.js`)
const { wake } = require(`${__hooks}/lib/wake.js`)

// Whose turn it is, smallest first, each by what is known of the operation `o`:
// - its priority;
// - short messages before the rest, while their sender did not have half an hour of such within the
//   last hour;
// - the sender that had less within that hour, by the minute for short messages and else by five, so
//   that many recordings of one sender leave the others their share;
// - of one sender's recordings those of up to ten minutes, then of up to an hour, then the rest.
// Among equals age decides, which is no reason to interrupt what has begun.
const SHORT = "(o.duration <= 120 AND had.short < 1800)"
const RANK = `-o.priority AS urgency,
  CASE WHEN ${SHORT} THEN 0 ELSE 1 END AS kind,
  CASE WHEN ${SHORT} THEN CAST(had.short / 60 AS INT) ELSE CAST(had.seconds / 300 AS INT) END AS share,
  CASE WHEN o.duration <= 600 THEN 0 WHEN o.duration <= 3600 THEN 1 ELSE 2 END AS length`
// What the senders with work in the queue had lately. Named indexes, as in queue.js.
const HAD = `had AS MATERIALIZED (
  SELECT s.sender, total(x.recognised) AS seconds,
    total(CASE WHEN x.duration <= 120 THEN x.recognised END) AS short
  FROM (SELECT DISTINCT sender FROM operations INDEXED BY idx_operations_claim
        WHERE state = 'queued' AND recogniser = '') s
  LEFT JOIN operations x INDEXED BY idx_operations_sender
    ON x.sender = s.sender AND x.recogniser = ''
      AND x.progressed_at > strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-1 hour')
  GROUP BY s.sender)`

// Seconds without a renewal after which a holder counts as gone. They renew every second or so.
const GONE = 180
const NOW_BUT = (seconds) => `strftime('%Y-%m-%d %H:%M:%fZ', 'now', '-${seconds} seconds')`

const row = () =>
  new DynamicModel({
    id: "", recording: "", state: "", lease_token: "", attempts: 0, crashes: 0, language: "", vocabulary: "",
    duration: -0, units: "", speech: -0, recognised: -0, detected: "", engine: "", error_text: "",
    priority: -0, quiet: -0, normalized: "",
  })

// Seconds for which the present holder has it without a slice. Nobody's silence is the time in which
// it waits for its turn, or for an engine to come back: a holder that is gone renews no more.
const HOLDING = `CASE
    WHEN lease_token = '' OR held_since = '' OR leased_at < ${NOW_BUT(GONE)} THEN 0.0
    ELSE (julianday('now') - julianday(max(held_since, progressed_at))) * 86400.0 END`

const COLUMNS = `id, recording, state, lease_token, attempts, crashes, language, vocabulary, duration,
  coalesce(units, 'null') AS units, speech, recognised, detected, engine, error_text, priority,
  held + ${HOLDING} AS quiet`

/** The operation of a recording: the one under way if there is one, else a new one. */
function submit(job) {
  let operation
  $app.runInTransaction((tx) => {
    operation = place(tx, job, "")
  })
  wake("operations")
  return operation
}

/**
 * A recording's operation with this recogniser. What another had begun is dropped. For the holder of
 * its job alone: who lost it would drop, or make anew, what the present one has begun.
 */
function place(tx, { recording, lease_token }, recogniser) {
  const jobs = arrayOf(new DynamicModel({ held: 0 }))
  tx.nonconcurrentDB()
    .newQuery(
      `SELECT j.lease_token = {:token} AND j.state = 'normalized' AS held
       FROM jobs j JOIN recordings r ON r.id = j.recording WHERE j.id = {:id}`,
    )
    .bind({ id: recording, token: lease_token })
    .all(jobs)
  if (jobs.length === 0 || jobs[0].held !== 1) {
    throw new Refusal(jobs.length === 0 ? "not_found" : "lease_lost")
  }
  const key = { recording: recording, recogniser: recogniser }
  // A failed operation is no operation: whoever submits again means to try again.
  cancel(
    tx, "recording = {:recording} AND (state = 'failed' OR recogniser <> {:recogniser})", key,
  )
  const found = arrayOf(new DynamicModel({ id: "" }))
  tx.nonconcurrentDB()
    .newQuery(
      `INSERT INTO operations
         (recording, state, recogniser, sender, language, vocabulary, duration, priority, created,
          updated)
       SELECT r.id, 'queued', {:recogniser}, coalesce(nullif(r.owner, ''), 'chat:' || j.chat_id),
         r.language, r.vocabulary, r.duration, j.priority, ${NOW}, ${NOW}
       FROM recordings r JOIN jobs j ON j.recording = r.id WHERE r.id = {:recording}
       ON CONFLICT (recording) DO UPDATE SET updated = ${NOW} RETURNING id`,
    )
    .bind(key)
    .all(found)
  return found[0].id
}

/**
 * Begin or go on with a remote recogniser's operation. Whoever takes it last holds it: only the holder
 * of the job's lease may, and what a former one still writes is refused.
 */
function take({ recording, recogniser, lease_token }) {
  let id
  $app.runInTransaction((tx) => {
    id = place(tx, { recording: recording, lease_token: lease_token }, recogniser)
    tx.nonconcurrentDB()
      .newQuery(
        `UPDATE operations SET lease_token = lower(hex(randomblob(16))), leased_at = ${NOW},
           leased_by = {:recogniser}, held_since = ${NOW},
           progressed_at = CASE WHEN progressed_at = '' THEN ${NOW} ELSE progressed_at END
         WHERE id = {:id}`,
      )
      .bind({ id: id, recogniser: recogniser })
      .execute()
  })
  const found = find($app, id)
  if (!found) {
    throw new Refusal("not_found")
  }
  return {
    id: id,
    state: found.state,
    lease_token: found.lease_token,
    units: JSON.parse(found.units),
    done: written(id).map((part) => part.unit),
  }
}

/** Claim the operation whose turn it is. An array of none or one. */
function claim({ worker, lease_seconds }) {
  const rows = arrayOf(row())
  $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE operations INDEXED BY sqlite_autoindex_operations_1 SET
         lease_token = lower(hex(randomblob(16))), leased_at = ${NOW},
         leased_by = {:worker}, attempts = attempts + 1, updated = ${NOW}, held_since = ${NOW},
         progressed_at = CASE WHEN progressed_at = '' THEN ${NOW} ELSE progressed_at END
       WHERE id = (
         WITH ${HAD}
         SELECT id FROM (
           SELECT o.id, o.created, ${RANK}
           FROM operations o INDEXED BY idx_operations_claim JOIN had ON had.sender = o.sender
           WHERE o.state = 'queued' AND o.recogniser = ''
             AND (o.lease_token = '' OR o.leased_at < ${AFTER("expired")}))
         ORDER BY urgency, kind, share, length, created, id LIMIT 1)
       RETURNING ${COLUMNS}`,
    )
    .bind({ worker: worker, expired: -lease_seconds })
    .all(rows)
  return Array.from(rows).map((each) => ({
    id: each.id,
    recording: each.recording,
    lease_token: each.lease_token,
    attempts: each.attempts,
    crashes: each.crashes,
    language: each.language,
    vocabulary: each.vocabulary,
    duration: each.duration,
    units: JSON.parse(each.units),
    done: written(each.id).map((part) => part.unit),
    detected: each.detected,
  }))
}

/** The slices written so far, in order, as [{unit, segments}]. */
function written(id) {
  const rows = arrayOf(new DynamicModel({ unit: 0, segments: "" }))
  $app
    .nonconcurrentDB()
    .newQuery("SELECT unit, segments FROM segments WHERE operation = {:id} ORDER BY unit")
    .bind({ id: id })
    .all(rows)
  return Array.from(rows).map((each) => ({ unit: each.unit, segments: JSON.parse(each.segments) }))
}

/** Run one conditional UPDATE under the lease; without it, 409 (or 404 when it is gone). */
function held(app, id, token, set, params = {}) {
  const done = app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE operations SET ${set}, updated = ${NOW}
       WHERE id = {:id} AND lease_token = {:token} AND lease_token <> '' AND state = 'queued'`,
    )
    .bind(Object.assign({ id: id, token: token }, params))
    .execute()
    .rowsAffected()
  if (done !== 1) {
    throw new Refusal(find(app, id) ? "lease_lost" : "not_found")
  }
}

function find(app, id) {
  const rows = arrayOf(row())
  app
    .nonconcurrentDB()
    .newQuery(`SELECT ${COLUMNS} FROM operations WHERE id = {:id}`)
    .bind({ id: id })
    .all(rows)
  return rows.length > 0 ? rows[0] : null
}

/** Keep the lease. True when another operation's turn has come. */
function renew(id, { lease_token }) {
  held($app, id, lease_token, `leased_at = ${NOW}`)
  return overtaken($app, id)
}

/** Whether one that nobody holds comes before this one by more than its age. */
function overtaken(app, id) {
  const others = arrayOf(new DynamicModel({ n: 0 }))
  app
    .nonconcurrentDB()
    .newQuery(
      `SELECT EXISTS (
         WITH ${HAD}, ranked AS MATERIALIZED (
           SELECT o.id, o.lease_token, ${RANK}
           FROM operations o INDEXED BY idx_operations_claim JOIN had ON had.sender = o.sender
           WHERE o.state = 'queued' AND o.recogniser = '')
         SELECT 1 FROM ranked mine JOIN ranked other ON other.lease_token = ''
         WHERE mine.id = {:id} AND (other.urgency, other.kind, other.share, other.length)
           < (mine.urgency, mine.kind, mine.share, mine.length)) AS n`,
    )
    .bind({ id: id })
    .all(others)
  return others[0].n === 1
}

/** Store where the recording is cut into slices, and the language found. */
function cut(id, { lease_token, units, language }) {
  const speech = units.reduce((sum, [start, end]) => sum + end - start, 0)
  held(
    $app,
    id,
    lease_token,
    `units = {:units}, speech = {:speech}, detected = {:language}, attempts = 0,
     crashes = 0, leased_at = ${NOW}, progressed_at = ${NOW}, held = 0`,
    { units: JSON.stringify(units), speech: speech, language: language || "" },
  )
}

/** Store one slice; writing it again changes nothing. True when another operation's turn has come. */
function write(id, { lease_token, unit, segments }) {
  let next = false
  $app.runInTransaction((tx) => {
    held(
      tx,
      id,
      lease_token,
      `leased_at = ${NOW}, attempts = 0, crashes = 0, progressed_at = ${NOW}, held = 0,
       recognised = recognised + CASE
         WHEN EXISTS (SELECT 1 FROM segments WHERE operation = {:id} AND unit = {:unit}) THEN 0
         ELSE coalesce(json_extract(units, '$[' || {:unit} || '][1]')
           - json_extract(units, '$[' || {:unit} || '][0]'), 0) END`,
      { unit: unit },
    )
    tx.nonconcurrentDB()
      .newQuery(
        `INSERT INTO segments (operation, unit, segments) VALUES ({:id}, {:unit}, {:segments})
         ON CONFLICT (operation, unit) DO UPDATE SET segments = excluded.segments`,
      )
      .bind({ id: id, unit: unit, segments: JSON.stringify(segments) })
      .execute()
    next = overtaken(tx, id)
  })
  return next
}

/** End a claim: done, failed for good, given back, or lost: its audio is not there any more. */
function finish(id, { lease_token, outcome, engine, language, error_text }) {
  if (outcome === "released") {
    held(
      $app, id, lease_token,
      `attempts = max(attempts - 1, 0), held = held + ${HOLDING}, ${NO_LEASE}`,
    )
    wake("operations")
    return
  }
  if (outcome === "lost") {
    // What it needs is gone: without an operation its job goes back and has it made again.
    $app.runInTransaction((tx) => {
      held(tx, id, lease_token, NO_LEASE)
      makeDue(tx, id)
      cancel(tx, "id = {:id}", { id: id })
    })
    wake("submitted")
    return
  }
  if (outcome !== "done" && outcome !== "failed") {
    throw new Refusal("bad_request")
  }
  $app.runInTransaction((tx) => {
    held(
      tx,
      id,
      lease_token,
      `state = {:state}, engine = {:engine}, error_text = {:error_text}, ${NO_LEASE},
       detected = CASE WHEN {:language} = '' THEN detected ELSE {:language} END`,
      {
        state: outcome,
        engine: engine || "",
        error_text: error_text || "",
        language: language || "",
      },
    )
    makeDue(tx, id)
  })
  wake("submitted")
}

function makeDue(app, id) {
  app
    .nonconcurrentDB()
    .newQuery("UPDATE jobs SET not_before = '' WHERE operation = {:id} AND state = 'submitted'")
    .bind({ id: id })
    .execute()
}

/** What a check sees: the state, the progress (0 to 1), and the slices once it is done. */
function look(id) {
  const found = find($app, id)
  if (!found) {
    throw new Refusal("not_found")
  }
  return {
    state: found.state,
    progress: progress(found),
    quiet: found.quiet,
    error_text: found.error_text,
    language: found.detected,
    engine: found.engine,
    parts: found.state === "done" ? written(id) : [],
    units: found.state === "done" ? (JSON.parse(found.units) || []).length : 0,
  }
}

const progress = ({ speech, recognised, state }) =>
  state === "done" ? 1 : speech > 0 ? Math.min(1, recognised / speech) : 0

/** Stop an operation and remove what it left. Its engine learns it by its next write. */
function cancel(app, where, params) {
  app
    .nonconcurrentDB()
    .newQuery(
      `DELETE FROM segments WHERE operation IN (SELECT id FROM operations WHERE ${where})`,
    )
    .bind(params)
    .execute()
  app.nonconcurrentDB().newQuery(`DELETE FROM operations WHERE ${where}`).bind(params).execute()
}

/** A recording is submitted: what it had with another recogniser is dropped. */
function keepOnly(tx, recording, operation) {
  const id = operation.slice(operation.indexOf(":") + 1)
  cancel(tx, "recording = {:recording} AND id <> {:id}", { recording: recording, id: id })
}

/** Remove an operation that is over, unless its job was returned to wait for it. */
function forget(id) {
  $app.runInTransaction((tx) => {
    cancel(
      tx,
      `id = {:id} AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.recording = operations.recording
         AND j.state = 'submitted' AND substr(j.operation, instr(j.operation, ':') + 1) = {:id})`,
      { id: id },
    )
  })
}

/** Give back what the previous process of this engine's name held when it died. */
function restart(worker) {
  return $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE operations SET crashes = crashes + 1, ${NO_LEASE}, updated = ${NOW}
       WHERE leased_by = {:worker} AND lease_token <> ''`,
    )
    .bind({ worker: worker })
    .execute()
    .rowsAffected()
}

/** What each action on a held operation takes. */
const actions = {
  cut: { lease_token: "name", units: "slices", language: "text?" },
  segments: { lease_token: "name", unit: "count", segments: "list" },
  renew: { lease_token: "name" },
  finish: {
    lease_token: "name", outcome: "name", engine: "text?", language: "text?", error_text: "text?",
  },
}

module.exports = {
  actions, submit, take, claim, renew, cut, write, finish, look, find, progress, cancel,
  keepOnly, forget, restart,
}
