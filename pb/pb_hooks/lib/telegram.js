// What the `telegram` process asks PocketBase: which chats are admitted, and to take a recording in.

const { Refusal } = require(`${__hooks}/lib/errors.js`)
const intake = require(`${__hooks}/lib/intake.js`)
const { NOW } = require(`${__hooks}/lib/leases.js`)
const operations = require(`${__hooks}/lib/operations.js`)

const rowsOf = (sql, params, model) => {
  const rows = arrayOf(new DynamicModel(model))
  $app.nonconcurrentDB().newQuery(sql).bind(params).all(rows)
  return Array.from(rows)
}

/** The job that a message has given already, or null. */
function known(chatId, messageId) {
  const [row] = rowsOf(
    "SELECT id, milestone FROM jobs WHERE chat_id = {:chat} AND message_id = {:message}",
    { chat: chatId, message: messageId },
    { id: "", milestone: "" },
  )
  return row ? { job_id: row.id, status: row.milestone } : null
}

/** Whether the owner admits the chat, asked of the table itself so that a change counts at once. */
function chat(chatId, messageId) {
  const rows = rowsOf(
    "SELECT id FROM chats WHERE chat_id = {:chat} AND admitted",
    { chat: chatId },
    { id: "" },
  )
  const found = messageId ? known(chatId, messageId) : null
  return { admitted: rows.length > 0, job_id: found ? found.job_id : "" }
}

/** Take a message's recording in, once however often it is delivered. */
function accept(e) {
  const file = intake.upload(e)
  const field = (name) => e.request.formValue(name) || ""
  const origin = {
    input: "telegram",
    owner: "",
    chat_id: field("chat_id"),
    thread_id: field("thread_id"),
    message_id: field("message_id"),
  }
  if (!/^-?[0-9]+$/.test(origin.chat_id) || !/^[0-9]+$/.test(origin.message_id)) {
    throw new Refusal("bad_request")
  }
  const before = known(origin.chat_id, origin.message_id)
  if (before) {
    return e.json(200, before)
  }
  try {
    return e.json(201, intake.accept(e, file, intake.hints(e), origin))
  } catch (error) {
    // The same message may have come in twice at the same moment; the index let one of them pass.
    const meanwhile = known(origin.chat_id, origin.message_id)
    if (meanwhile) {
      return e.json(200, meanwhile)
    }
    if (error.probe === 422) {
      $app.logger().warn("recording refused", "input", "telegram", "reason", error.reason)
      throw new Refusal("unreadable")
    }
    if (error.probe === 503) {
      $app.logger().warn("recording not read", "input", "telegram", "reason", error.reason)
      throw new Refusal("unread")
    }
    throw error
  }
}

/** The chat's recordings that are in work, the oldest first, each with how far it has come. */
function inWork(chatId) {
  return rowsOf(
    `SELECT j.id, j.milestone, j.operation, r.duration,
       (julianday('now') - julianday(j.created)) * 86400.0 AS age
     FROM jobs j JOIN recordings r ON r.id = j.recording
     WHERE j.chat_id = {:chat} AND j.state NOT IN ('done', 'failed', 'dead')
     ORDER BY j.created, j.id LIMIT 100`,
    { chat: chatId },
    { id: "", milestone: "", operation: "", duration: -0, age: -0 },
  ).map((row) => {
    const operation =
      row.milestone === "submitted" ? operations.find($app, row.operation) : null
    return {
      job_id: row.id,
      status: row.milestone,
      duration: row.duration,
      age: row.age,
      progress: operation ? operations.progress(operation) : 0,
    }
  })
}

/** A group became a supergroup: what was admitted stays so, and its answers go to the new chat. */
function moved(from, to) {
  if (!/^-?[0-9]+$/.test(to)) {
    throw new Refusal("bad_request")
  }
  $app.runInTransaction((tx) => {
    const run = (sql) =>
      tx.nonconcurrentDB().newQuery(sql).bind({ from: from, to: to }).execute()
    run(
      `UPDATE chats SET chat_id = {:to}, updated = ${NOW} WHERE chat_id = {:from}
         AND NOT EXISTS (SELECT 1 FROM chats taken WHERE taken.chat_id = {:to})`,
    )
    // The new chat counts its messages anew: the old numbers would name others.
    run("UPDATE jobs SET chat_id = {:to}, thread_id = '', message_id = '' WHERE chat_id = {:from}")
    run(
      `UPDATE answers SET chat_id = {:to}, thread_id = '', message_id = '', updated = ${NOW}
       WHERE chat_id = {:from} AND state = 'pending'`,
    )
  })
}

module.exports = { accept, chat, inWork, moved }
