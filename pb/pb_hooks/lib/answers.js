// Answers on their way to senders: written with the end of a job, claimed by lease, and ended as
// sent, unsure or undelivered. Their SQL stands here as the queue's stands in queue.js.

const { checked } = require(`${__hooks}/lib/body.js`)
const { Refusal } = require(`${__hooks}/lib/errors.js`)
const { NOW, AFTER, NO_LEASE, giveBack } = require(`${__hooks}/lib/leases.js`)
const { wake } = require(`${__hooks}/lib/wake.js`)

const ENDED = { done: "text", failed: "failure", dead: "failure" }

/** Note down that the sender is to be told, if it is one that waits. True when there is news. */
function add(tx, { id, lease_token, outcome, to }) {
  const kind = ENDED[outcome === "advanced" ? to : outcome]
  return Boolean(kind) && insert(tx, id, kind, lease_token) > 0
}

/** Tell a chat once more what became of a recording of its own. True when there is such a one. */
function again(id, chatId, messageId) {
  const rows = arrayOf(new DynamicModel({ state: "" }))
  $app
    .db()
    .newQuery("SELECT state FROM jobs WHERE id = {:id} AND chat_id = {:chat} AND chat_id <> ''")
    .bind({ id: id, chat: chatId })
    .all(rows)
  const kind = rows.length > 0 && ENDED[rows[0].state]
  if (!kind) {
    return false
  }
  if (insert($app, id, kind, `again:${messageId}`) > 0) {
    wake("answers")
  }
  return true
}

function insert(app, id, kind, cause) {
  return app
    .nonconcurrentDB()
    .newQuery(
      `INSERT INTO answers
         (recording, cause, kind, state, chat_id, thread_id, message_id, created, updated)
       SELECT j.id, {:cause}, {:kind}, 'pending', j.chat_id, j.thread_id, j.message_id, ${NOW}, ${NOW}
       FROM jobs j JOIN recordings r ON r.id = j.recording
       WHERE j.id = {:id} AND j.source = 'telegram'
       ON CONFLICT (recording, cause) DO NOTHING`,
    )
    .bind({ id: id, cause: cause, kind: kind })
    .execute()
    .rowsAffected()
}

// The proofread text where there is one. It comes with the claim: most answers are short.
const TEXT = (column) => `(SELECT ${column} FROM transcripts t
  WHERE t.recording = answers.recording AND answers.kind = 'text'
  ORDER BY t.kind = 'proofread' DESC LIMIT 1)`

const claimed = () =>
  new DynamicModel({
    id: "", recording: "", kind: "", chat_id: "", thread_id: "", message_id: "", begun: 0, sent: 0,
    unsure: 0, attempts: 0, failing: -0, lease_token: "", has_text: false, text: "",
    why: "",
  })

/**
 * Claim up to `count` answers, of each chat its oldest and no other while that one is not told: a
 * chat hears in order, and one that must wait holds up no other.
 */
function claim({ worker, lease_seconds, count }) {
  const rows = arrayOf(claimed())
  $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE answers SET lease_token = lower(hex(randomblob(16))), leased_at = ${NOW},
         leased_by = {:worker}, attempts = attempts + 1, updated = ${NOW}
       WHERE id IN (
         SELECT a.id FROM answers a
         WHERE a.state = 'pending' AND a.chat_id > '' AND a.not_before <= ${NOW}
           AND (a.lease_token = '' OR a.leased_at < ${AFTER("expired")})
           AND NOT EXISTS (SELECT 1 FROM answers older WHERE older.state = 'pending'
             AND older.chat_id = a.chat_id AND older.rowid < a.rowid)
         ORDER BY +a.rowid LIMIT {:count}) -- the index of what is pending, and not the table
       RETURNING id, recording, kind, chat_id, thread_id, message_id, begun, sent, unsure, attempts,
         lease_token, ${TEXT("1")} IS NOT NULL AS has_text, coalesce(${TEXT("text")}, '') AS text,
         coalesce((SELECT why FROM jobs j WHERE j.id = CAST(answers.recording AS TEXT)), '') AS why,
         CASE WHEN failing_since = '' THEN 0.0
           ELSE (julianday('now') - julianday(failing_since)) * 86400.0 END AS failing`,
    )
    .bind({ worker: worker, expired: -lease_seconds, count: count })
    .all(rows)
  return rows
}

/** What an answer can end as. */
const ENDS = ["sent", "unsure", "undelivered"]

const LET_GO = `written_token = lease_token, ${NO_LEASE}`

/** What each step of telling takes and writes, under the claim's token. */
const outcomes = {
  // A message is about to leave; the one before it has.
  begun: { takes: {}, set: `leased_at = ${NOW}` },
  // None is on its way; try again after a pause.
  later: {
    takes: { pause: "seconds", failing: "flag" },
    set: `not_before = ${AFTER("pause")}, ${LET_GO},
      attempts = CASE WHEN {:failing} THEN attempts ELSE 0 END,
      failing_since = CASE WHEN NOT {:failing} THEN ''
        WHEN failing_since = '' THEN ${NOW} ELSE failing_since END`,
    params: ({ pause, failing }) => ({ pause: pause, failing: Boolean(failing) }),
  },
  ended: {
    takes: { state: "name", reason: "text?" },
    set: `state = {:state}, reason = {:reason}, ${LET_GO}`,
    params: ({ state, reason }) => ({ state: state, reason: reason || "" }),
  },
}

/** Write one step under the claim's token; 409 when the claim is somebody else's by now. */
function write(id, body) {
  if (!Object.hasOwn(outcomes, body.outcome)) {
    throw new Refusal("bad_request")
  }
  const outcome = outcomes[body.outcome]
  checked(body, outcome.takes)
  if (body.outcome === "ended" && !ENDS.includes(body.state)) {
    throw new Refusal("bad_request")
  }
  const written = $app
    .nonconcurrentDB()
    .newQuery(
      // A note that comes after a later one of the same holder says what is true no more.
      `UPDATE answers SET begun = {:begun}, sent = {:sent}, unsure = {:unsure}, ${outcome.set},
         updated = ${NOW} WHERE id = {:id} AND lease_token = {:token} AND sent <= {:sent}`,
    )
    .bind(
      Object.assign(
        { id: id, token: body.lease_token, begun: body.begun, sent: body.sent, unsure: body.unsure },
        outcome.params ? outcome.params(body) : {},
      ),
    )
    .execute()
    .rowsAffected()
  if (written !== 1 && !(body.outcome !== "begun" && writtenBefore(id, body.lease_token))) {
    throw new Refusal("lease_lost")
  }
  if (body.outcome === "ended") {
    wake("answers") // the chat's next one may go
  }
}

/** Whether a claim's last step was written, and its answer got lost on the way. */
function writtenBefore(id, token) {
  const rows = arrayOf(new DynamicModel({ id: "" }))
  $app
    .nonconcurrentDB()
    .newQuery("SELECT id FROM answers WHERE id = {:id} AND written_token = {:token}")
    .bind({ id: id, token: token })
    .all(rows)
  return rows.length === 1
}

/** Give back what the previous process of this name held. */
function restart(worker) {
  return giveBack("answers", worker)
}

/**
 * End answers that nobody will send: a recording's, or all without a chat, or all there are, those
 * included that a killed process held when the input was still on.
 * Returns what was ended, as [{recording, chat_id}].
 */
function close({ recording, all, reason }) {
  const rows = arrayOf(new DynamicModel({ recording: "", chat_id: "" }))
  $app
    .nonconcurrentDB()
    .newQuery(
      `UPDATE answers SET state = 'undelivered', ${NO_LEASE}, updated = ${NOW},
         reason = CASE WHEN chat_id = '' THEN 'no_addressee' ELSE {:reason} END
       WHERE state = 'pending' AND ({:all} OR lease_token = '')
         AND CASE WHEN {:recording} <> '' THEN recording = {:recording}
           ELSE {:all} OR chat_id = '' END
       RETURNING recording, chat_id`,
    )
    .bind({ recording: recording || "", all: Boolean(all), reason: reason })
    .all(rows)
  return rows
}

module.exports = { add, again, claim, write, restart, close }
