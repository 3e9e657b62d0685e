/// The routes of the process `telegram`, for workers alone: recordings in, chats, answers out.

routerAdd(
  "POST",
  "/api/queue/recordings",
  (e) => {
    const { errors, telegram } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => telegram.accept(e))
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
  // The form's own lines come on top of the file.
  $apis.bodyLimit(require(`${__hooks}/lib/config.js`).maxUploadMb() * 1024 * 1024 + 64 * 1024),
)

routerAdd(
  "GET",
  "/api/queue/chats/{chat}",
  (e) => {
    const { errors, telegram } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const message = e.request.url.query().get("message_id")
      return e.json(200, telegram.chat(e.request.pathValue("chat"), message))
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "GET",
  "/api/queue/chats/{chat}/jobs",
  (e) => {
    const { errors, telegram } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      return e.json(200, { jobs: telegram.inWork(e.request.pathValue("chat")) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/chats/{chat}/moved",
  (e) => {
    const { body, errors, telegram } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { to } = body.read(e, { to: "name" })
      telegram.moved(e.request.pathValue("chat"), to)
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
    const { body, counters, errors } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { error_code: "name" }
      const code = body.read(e, fields).error_code
      if (!errors.isCode(code)) {
        throw new errors.Refusal("bad_request")
      }
      counters.rejected("telegram", code)
      return e.json(200, {})
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/claim",
  (e) => {
    const { answers, body, errors } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const asked = body.read(e, {
        worker: "name", count: "count", lease_seconds: "seconds",
      })
      if (asked.count < 1 || asked.count > 1000 || asked.lease_seconds === 0) {
        throw new errors.Refusal("bad_request")
      }
      return e.json(200, { answers: answers.claim(asked) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/restart",
  (e) => {
    const { answers, body, errors } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const { worker } = body.read(e, { worker: "name" })
      return e.json(200, { returned: answers.restart(worker) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/close",
  (e) => {
    const { answers, body, errors } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { recording: "text?", all: "flag?", reason: "name" }
      const asked = body.read(e, fields)
      return e.json(200, { closed: answers.close(asked) })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/again",
  (e) => {
    const { answers, body, errors } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const fields = { job_id: "text", chat_id: "text", message_id: "text" }
      const { job_id, chat_id, message_id } = body.read(e, fields)
      const found = answers.again(job_id, chat_id, message_id)
      return e.json(200, { found: found })
    })
  },
  ...require(`${__hooks}/lib/routes.js`).workersOnly(),
)

routerAdd(
  "POST",
  "/api/queue/answers/write/{id}",
  (e) => {
    const { answers, body, errors } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const asked = body.read(e, {
        lease_token: "name", outcome: "name", begun: "count", sent: "count", unsure: "count",
      })
      answers.write(e.request.pathValue("id"), asked)
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
