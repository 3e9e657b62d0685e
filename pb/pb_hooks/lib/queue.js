// The queue's SQL, all of it. One claim is one UPDATE; one result is one conditional UPDATE. Every
// time is this database's clock in PocketBase's own form, and no worker ever sends one.
//
// Raw statements go to the one writer connection: `newQuery` would send what starts with WITH to
// the read pool. They skip record hooks and realtime on purpose: `wake` is this queue's signal.

const answers = require(`${__hooks}/lib/answers.js`)
const { checked } = require(`${__hooks}/lib/body.js`)
const { Refusal } = require(`${__hooks}/lib/errors.js`)
const { NOW, AFTER, NO_LEASE } = require(`${__hooks}/lib/leases.js`)
const operations = require(`${__hooks}/lib/operations.js`)
const store = require(`${__hooks}/lib/store.js`)
const transcripts = require(`${__hooks}/lib/transcripts.js`)
const { wake } = require(`${__hooks}/lib/wake.js`)

// Seconds since the operation was submitted.
const WAITED = `CASE WHEN submitted_at = '' THEN 0.0
  ELSE (julianday('now') - julianday(submitted_at)) * 86400.0 END`

// What a sender may be told of a judgement, beside that there is one.
const WHY = ["no_sound", "unreadable", "too_long"]

const MILESTONES = ["uploaded", "normalized", "submitted", "transcribed", "done"]

const claimed = () =>
  new DynamicModel({
    id: "", state: "", attempts: 0, lease_token: "", operation: "", error_text: "", waited: -0,
    sent_back: 0,
    // A number of the owner's own, so -0: as an integer, one with a fraction would fail every claim.
    created: "", priority: -0, chat_id: "", thread_id: "", message_id: "", source: "",
  })

/** What a claim asks for, if it is well formed. */
function wanted(body) {
  const { count, lease_seconds } = checked(body, {
    state: "name", worker: "name", count: "count", lease_seconds: "seconds",
  })
  if (count < 1 || count > 1000 || lease_seconds === 0) {
    throw new Refusal("bad_request")
  }
  return body
}

// A job may be claimed when its pause is over and nobody holds it, or held it for longer than the lease.
const DUE = (expired) =>
  `not_before <= ${NOW} AND (lease_token = '' OR leased_at < ${expired})`

/** Of the claims asked about, the states of those that would find something now. A hint. */
function due(claims) {
  if (claims.length > 100) {
    throw new Refusal("bad_request")
  }
  const asked = claims.map((each) => {
    const { state, lease_seconds } = checked(each, { state: "name", lease_seconds: "seconds" })
    return [state, -lease_seconds]
  })
  const states = arrayOf(new DynamicModel({ state: "" }))
  $app
    .db()
    .newQuery(
      `SELECT json_extract(c.value, '$[0]') AS state FROM json_each({:asked}) c
       WHERE EXISTS (SELECT 1 FROM jobs INDEXED BY idx_jobs_claim
         WHERE state = CAST(json_extract(c.value, '$[0]') AS TEXT)
           AND ${DUE("strftime('%Y-%m-%d %H:%M:%fZ', 'now', json_extract(c.value, '$[1]') || ' seconds')")})`,
    )
    .bind({ asked: JSON.stringify(asked) })
    .all(states)
  return Array.from(states).map((row) => row.state)
}

/** Claim up to `count` jobs of a state: choose, mark and return them in one statement. */
function claim(app, { state, lease_seconds, count, worker }) {
  const jobs = arrayOf(claimed())
  // For a list SQLite makes a table, which is a third of what such a claim costs here.
  const among = count === 1 ? "=" : "IN"
  app
    .nonconcurrentDB()
    .newQuery(
      // Named indexes: PocketBase lets SQLite take statistics while the tables are as good as empty,
      // by which it then scans them for ever, however long they grow.
      `UPDATE jobs INDEXED BY sqlite_autoindex_jobs_1 SET
         error_text = CASE WHEN lease_token = '' THEN error_text
           ELSE 'abandoned: ' || leased_by || ' stopped without a result' END,
         lease_token = lower(hex(randomblob(16))), leased_at = ${NOW}, leased_by = {:worker},
         attempts = attempts + 1
       WHERE id ${among} (
         SELECT id FROM jobs INDEXED BY idx_jobs_claim
         WHERE state = {:state} AND ${DUE(AFTER("expired"))}
         ORDER BY priority DESC, created, id LIMIT {:count})
       RETURNING id, state, attempts, sent_back, lease_token, operation, error_text, created, priority,
         chat_id, thread_id, message_id,
         ${state === "submitted" ? WAITED : "0.0"} AS waited, source`,
    )
    .bind({ worker: worker, state: state, expired: -lease_seconds, count: count })
    .all(jobs)
  // RETURNING has no order of its own.
  return Array.from(jobs).sort(
    (a, b) =>
      b.priority - a.priority || compare(a.created, b.created) || compare(a.id, b.id),
  )
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0)

// An operation of ours that has ended makes its job due at once, whatever delay the step asked for:
// it may have ended between the step's look and its write. ("openai:ID" is one of ours as well.)
const dueAfterDelay = (operation, delay) =>
  delay <= 0
    ? "''"
    : `CASE WHEN EXISTS (
      SELECT 1 FROM operations o
      WHERE o.id = substr(${operation}, instr(${operation}, ':') + 1) AND o.state <> 'queued') THEN ''
    ELSE ${AFTER("delay")} END`

/**
 * What each outcome writes: its own columns and no others. `updated` moves with the state alone: it
 * is what a panel's form is held against, and a job that is merely polled makes no form old.
 */
const outcomes = {
  advanced: (result) => ({
    set: `state = {:to}, milestone = {:to}, updated = ${NOW}, attempts = 0, error_text = '',
          operation = CASE WHEN {:operation} = '' THEN operation ELSE {:operation} END,
          submitted_at = CASE WHEN {:operation} = '' THEN submitted_at ELSE ${NOW} END,
          not_before = ${dueAfterDelay("{:operation}", result.delay || 0)}`,
    params: {
      to: milestone(result.to),
      operation: result.operation || "",
      delay: result.delay || 0,
    },
  }),
  sent_back: (result) => ({
    set: `state = {:to}, milestone = {:to}, updated = ${NOW}, attempts = 0,
          sent_back = sent_back + 1, operation = '', submitted_at = '',
          not_before = ${AFTER("pause")}, error_text = {:error_text}`,
    params: { to: milestone(result.to), pause: result.pause, error_text: result.error_text },
  }),
  waiting: (result) => ({
    set: `attempts = 0, error_text = '', not_before = ${dueAfterDelay("jobs.operation", result.delay)}`,
    params: { delay: result.delay },
  }),
  // `cap`: what failed is no fault of this job's, and its attempts grow no further than that.
  retry: (result) => ({
    set: `not_before = ${AFTER("pause")}, error_text = {:error_text},
          attempts = CASE WHEN {:cap} < 0 THEN attempts ELSE min(attempts, {:cap}) END`,
    params: {
      pause: result.pause,
      error_text: result.error_text,
      cap: result.cap === undefined || result.cap === null ? -1 : result.cap,
    },
  }),
  failed: (result) => ({
    set: `state = 'failed', updated = ${NOW}, not_before = '', error_text = {:error_text},
          why = {:why}`,
    params: { error_text: result.error_text, why: WHY.includes(result.why) ? result.why : "" },
  }),
  dead: (result) => ({
    set: `state = 'dead', updated = ${NOW}, not_before = '', error_text = {:error_text}`,
    params: { error_text: result.error_text },
  }),
  released: () => ({ set: "attempts = max(attempts - 1, 0)", params: {} }),
}

/** What each outcome takes, beside the claim that it is of. */
const takes = {
  advanced: { to: "name", operation: "text?", delay: "seconds?" },
  sent_back: { to: "name", pause: "seconds", error_text: "text" },
  waiting: { delay: "seconds" },
  retry: { pause: "seconds", error_text: "text", cap: "count?" },
  failed: { error_text: "text" },
  dead: { error_text: "text" },
  released: {},
}

function milestone(value) {
  if (!MILESTONES.includes(value)) {
    throw new Refusal("bad_request")
  }
  return value
}

/**
 * Write one result if the lease is still the writer's; null when it is lost.
 *
 * `now` is true when it was, and false when this very result was written before and its answer got
 * lost on the way: what goes with it was so, too, and may be the owner's by now.
 */
function write(app, result) {
  const kind = checked(result, { id: "name", lease_token: "name", outcome: "name" }).outcome
  if (!Object.hasOwn(outcomes, kind)) {
    throw new Refusal("bad_request")
  }
  checked(result, takes[kind])
  const outcome = outcomes[kind]
  const { set, params } = outcome(result)
  const key = { id: result.id, token: result.lease_token }
  const written = arrayOf(new DynamicModel({ source: "" }))
  app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE jobs SET ${set}, written_token = lease_token, ${NO_LEASE}
       WHERE id = {:id} AND lease_token = {:token}
       RETURNING source`,
    )
    .bind(Object.assign({}, key, params))
    .all(written)
  if (written.length === 1) {
    return { now: true, source: written[0].source }
  }
  const same = arrayOf(new DynamicModel({ id: "" }))
  app
    .nonconcurrentDB()
    .newQuery("SELECT id FROM jobs WHERE id = {:id} AND written_token = {:token}")
    .bind(key)
    .all(same)
  return same.length === 1 ? { now: false } : null
}

/**
 * Write results, each with its transcript, in one transaction, and claim in it what is wanted next.
 *
 * Nothing is claimed beside a result that is not written now: one whose lease is lost is no way to
 * more work, and one that comes again comes from a worker that may hold what it never heard of.
 * Returns the ids that lost the lease, and `jobs` where a claim was made.
 */
function finish(results, next) {
  const answer = { lost: [] }
  const reached = new Set()
  let news = 0
  $app.runInTransaction((tx) => {
    for (const result of results) {
      const written = write(tx, result)
      if (!written) {
        answer.lost.push(result.id)
      }
      if (!written || !written.now) {
        continue
      }
      news++
      if (result.transcript) {
        transcripts.save(tx, result.id, result.transcript)
      }
      if (result.outcome === "advanced") {
        reached.add(result.to)
        if (result.to === "submitted" && result.operation) {
          operations.keepOnly(tx, result.id, result.operation)
        }
      }
      if (written.source === "telegram" && answers.add(tx, result)) {
        reached.add("answers")
      }
    }
    if (next && news === results.length) {
      answer.jobs = claim(tx, next)
    }
  })
  if (reached.size > 0) {
    wake(...reached)
  }
  return answer
}

/** Give back at once what this worker's name holds, but for the tokens it says it keeps. */
function restart(worker, keep) {
  return $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE jobs SET ${NO_LEASE},
         error_text = 'abandoned: ' || leased_by || ' stopped without a result'
       WHERE leased_by = {:worker} AND leased_by <> '' AND lease_token <> ''
         AND lease_token NOT IN (SELECT value FROM json_each({:keep}))`,
    )
    .bind({ worker: worker, keep: JSON.stringify(keep || []) })
    .execute()
    .rowsAffected()
}

/** What a step needs of a job's recording. */
function recording(id) {
  const rows = arrayOf(
    new DynamicModel({
      id: "", audio: "", normalized: "", extension: "", duration: -0, language: "", vocabulary: "",
      recogniser: "", channels: "",
    }),
  )
  $app
    .db()
    .newQuery(
      `SELECT id, audio, normalized, extension, duration, language, vocabulary, recogniser,
         channels
       FROM recordings WHERE id = {:id}`,
    )
    .bind({ id: id })
    .all(rows)
  if (rows.length === 0) {
    throw new Refusal("not_found")
  }
  const [found] = rows
  if (found.normalized && !store.stored(id, found.normalized)) {
    found.normalized = "" // it can be made again
  }
  return found
}

/**
 * How many jobs stand in each state, and the age in seconds of the oldest of each that a step has yet
 * to work on. Those that have ended are merely counted: they may be a million.
 */
function stats() {
  const rows = arrayOf(new DynamicModel({ state: "", jobs: 0, oldest: -0 }))
  $app
    .db()
    .newQuery(
      `SELECT s.value AS state,
         (SELECT count(*) FROM jobs INDEXED BY idx_jobs_claim WHERE state = s.value) AS jobs,
         coalesce(CASE WHEN s.value NOT IN ('done', 'failed', 'dead') THEN
           (SELECT (julianday('now') - julianday(min(created))) * 86400.0
            FROM jobs INDEXED BY idx_jobs_claim WHERE state = s.value) END, 0.0) AS oldest
       FROM json_each({:states}) s`,
    )
    .bind({ states: JSON.stringify([...MILESTONES, "failed", "dead"]) })
    .all(rows)
  return Array.from(rows).map((row) => ({ state: row.state, jobs: row.jobs, oldest: row.oldest }))
}

/** A stopped job goes back to work: what `state` the owner chose, and everything else cleared. */
const returned = (state) => {
  const cleared = {
    state: state, milestone: state, attempts: 0, not_before: "", lease_token: "", leased_at: "",
    leased_by: "", error_text: "", sent_back: 0, why: "",
  }
  const beforeSubmitted = MILESTONES.indexOf(state) < MILESTONES.indexOf("submitted")
  return beforeSubmitted ? Object.assign(cleared, { operation: "", submitted_at: "" }) : cleared
}

module.exports = {
  wanted, due, claim, finish, write, restart, recording, stats, returned, MILESTONES,
}
