/// The routes of the process `telegram`, for workers alone: recordings in, chats, answers out.

routerAdd(
  "POST",
  "/api/queue/recordings",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => require(`${__hooks}/lib/telegram.js`).accept(e))
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  // The form's own lines come on top of the file.
  $apis.bodyLimit(require(`${__hooks}/lib/config.js`).maxUploadMb() * 1024 * 1024 + 64 * 1024),
)

routerAdd(
  "GET",
  "/api/queue/chats/{chat}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const message = e.request.url.query().get("message_id")
      const telegram = require(`${__hooks}/lib/telegram.js`)
      return e.json(200, telegram.chat(e.request.pathValue("chat"), message))
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/queue/chats/{chat}/jobs",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const telegram = require(`${__hooks}/lib/telegram.js`)
      return e.json(200, { jobs: telegram.inWork(e.request.pathValue("chat")) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/chats/{chat}/moved",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const { to } = require(`${__hooks}/lib/body.js`).read(e, { to: "name" })
      require(`${__hooks}/lib/telegram.js`).moved(e.request.pathValue("chat"), to)
      return e.json(200, {})
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

// What the process refuses before PocketBase sees anything of it is counted here all the same.
routerAdd(
  "POST",
  "/api/queue/rejections",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { error_code: "name" }
      const code = require(`${__hooks}/lib/body.js`).read(e, fields).error_code
      if (!errors.isCode(code)) {
        throw new errors.Refusal("bad_request")
      }
      require(`${__hooks}/lib/counters.js`).rejected("telegram", code)
      return e.json(200, {})
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/claim",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const body = require(`${__hooks}/lib/body.js`).read(e, {
        worker: "name", count: "count", lease_seconds: "seconds",
      })
      if (body.count < 1 || body.count > 1000 || body.lease_seconds === 0) {
        throw new errors.Refusal("bad_request")
      }
      return e.json(200, { answers: require(`${__hooks}/lib/answers.js`).claim(body) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/restart",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const { worker } = require(`${__hooks}/lib/body.js`).read(e, { worker: "name" })
      return e.json(200, { returned: require(`${__hooks}/lib/answers.js`).restart(worker) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/close",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { recording: "text?", all: "flag?", reason: "name" }
      const body = require(`${__hooks}/lib/body.js`).read(e, fields)
      return e.json(200, { closed: require(`${__hooks}/lib/answers.js`).close(body) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/again",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const fields = { job_id: "text", chat_id: "text", message_id: "text" }
      const { job_id, chat_id, message_id } = require(`${__hooks}/lib/body.js`).read(e, fields)
      const found = require(`${__hooks}/lib/answers.js`).again(job_id, chat_id, message_id)
      return e.json(200, { found: found })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/write/{id}",
  (e) => {
    const errors = require(`${__hooks}/lib/errors.js`)
    return errors.guard(e, () => {
      const body = require(`${__hooks}/lib/body.js`).read(e, {
        lease_token: "name", outcome: "name", begun: "count", sent: "count", unsure: "count",
      })
      require(`${__hooks}/lib/answers.js`).write(e.request.pathValue("id"), body)
      return e.json(200, {})
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

// An answer's row is the service's alone: a form saved an hour late would send it again.
onRecordUpdateRequest(() => {
  throw new BadRequestError("Answers are written by the service. To tell a sender again, use /text.")
}, "answers")

onRecordCreateRequest(() => {
  throw new BadRequestError("Answers are written when a job ends, not here.")
}, "answers")
