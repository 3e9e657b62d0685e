// The one place that turns whatever went wrong on a route of ours into an answer:
// {"error_code", "message"}, by the table below. The cause goes to the log and nowhere else.

const config = require(`${__hooks}/lib/config.js`)
const counters = require(`${__hooks}/lib/counters.js`)

const table = {
  unauthorized: { status: 401, ru: "требуется вход", en: "sign in first" },
  forbidden: {
    status: 403,
    ru: "у вашей сессии нет учётной записи",
    en: "your session has no user account",
  },
  not_found: { status: 404, ru: "запись не найдена", en: "recording not found" },
  bad_request: { status: 400, ru: "некорректный ввод", en: "bad input" },
  too_large: {
    status: 413,
    ru: "запись больше допустимого размера",
    en: "the recording is larger than allowed",
  },
  too_many_requests: {
    status: 429,
    ru: "слишком много запросов подряд, попробуйте позже",
    en: "too many requests in a row, try again later",
  },
  not_ready: {
    status: 409,
    ru: "действие недоступно в текущем состоянии",
    en: "not available in the current state",
  },
  // Only workers meet this one: the claim under which they write is no longer theirs.
  lease_lost: { status: 409, ru: "захват потерян", en: "lease lost" },
  // So do these: the file is no media, or whoever looked into it did not live to tell.
  unreadable: { status: 422, ru: "запись не читается", en: "the recording cannot be read" },
  unread: { status: 422, ru: "запись не прочитана", en: "the recording was not read" },
  no_space: {
    status: 507,
    ru: "на сервере кончилось место, попробуйте позже",
    en: "the server is out of space, try again later",
  },
  internal: { status: 500, ru: "внутренняя ошибка", en: "internal error" },
}

const codeByStatus = {
  400: "bad_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  409: "not_ready",
  413: "too_large",
  429: "too_many_requests",
}

/** A refusal that a route of ours means: a code of the table and what to add to its message. */
class Refusal extends Error {
  constructor(code, detail = null) {
    super(code)
    this.refusal = code
    this.detail = detail
  }
}

/** The HTTP status that an error carries anywhere in its chain of causes, or 0. */
function statusOf(error) {
  for (let each = error; each; each = causeOf(each.value)) {
    const status = (each.value && each.value.status) || each.status
    if (status) {
      return status
    }
  }
  return 0
}

/** What a Go error wraps. A Go method that returns an error throws it here instead. */
function causeOf(goError) {
  try {
    return goError && goError.unwrap && goError.unwrap()
  } catch (cause) {
    return cause
  }
}

/** Whether a file of our own could not be written or read: a full disk is not the sender's doing. */
function isOurDisk(error) {
  for (let each = error; each; each = causeOf(each.value)) {
    if (each.value && each.value.path !== undefined && each.value.op !== undefined) {
      return true // Go's fs.PathError
    }
  }
  return false
}

const SQLITE_FULL = 13
// The kernel's own errors have no number here; this is all that they say.
const FULL = ["no space left on device", "disk quota exceeded"]

/** Whether our disk is full, be it under a file or under the database. */
function isFull(error) {
  for (let each = error; each; each = causeOf(each.value)) {
    const cause = each.value
    if (cause && typeof cause.code === "function" && cause.code() === SQLITE_FULL) {
      return true
    }
    if (cause && typeof cause.temporary === "function" && FULL.includes(cause.error())) {
      return true
    }
  }
  return false
}

/** The kernel's word for what went wrong, which names no file, or empty where it was not the kernel. */
function kernelsWord(error) {
  for (let each = error; each; each = causeOf(each.value)) {
    if (each.value && typeof each.value.temporary === "function") {
      return each.value.error()
    }
  }
  return ""
}

/** The inputs whose refusals are counted. */
const inputs = { "POST /api/audio": "http" }

/** Answer an error in the one form. */
function respond(e, error) {
  const code =
    (error && error.refusal) ||
    (isFull(error) && "no_space") ||
    codeByStatus[statusOf(error)] ||
    "internal"
  const row = table[code]
  if (row.status >= 500) {
    $app.logger().error(
      "request failed",
      "route",
      e.request.pattern,
      "reason",
      (error && error.reason) || String(error),
    )
  }
  const input = inputs[e.request.pattern]
  if (input) {
    counters.rejected(input, code)
  }
  if (e.written()) {
    return // the answer has begun: nothing sensible can follow it
  }

  const locale = config.locale()
  let detail = error && error.detail && error.detail[locale]
  if (code === "too_large" && !detail) {
    detail = { ru: `не более ${config.maxUploadMb()} МБ`, en: `at most ${config.maxUploadMb()} MB` }[
      locale
    ]
  }
  const message = detail ? `${row[locale]}: ${detail}` : row[locale]
  // As a string: `e.json` writes an object's keys in any order, and equal refusals shall be equal.
  e.response.header().set("Content-Type", "application/json")
  const answer = JSON.stringify({ error_code: code, message: message })
  if (e.request.contentLength >= 0) {
    return e.string(row.status, answer)
  }
  // The server would read on before it answers, to use the connection again, and a body that
  // announced no length may be slow to come.
  e.response.header().set("Connection", "close")
  e.response.header().set("Content-Length", String(toBytes(answer).length))
  e.string(row.status, answer)
  return e.flush()
}

/** Run a handler of ours; whatever it throws becomes the one form. */
function guard(e, handler) {
  try {
    return handler()
  } catch (error) {
    return respond(e, error)
  }
}

const isCode = (code) => code in table

module.exports = { Refusal, guard, isCode, isFull, isOurDisk, kernelsWord, respond, statusOf }
