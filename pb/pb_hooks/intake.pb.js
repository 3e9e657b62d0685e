/// POST /api/audio: a program hands in a recording.

routerAdd(
  "POST",
  "/api/audio",
  (e) => {
    const { errors, intake } = require(`${__hooks}/lib/index.js`)
    return errors.guard(e, () => {
      const file = intake.upload(e)
      const hints = intake.hints(e)
      return e.json(201, intake.accept(e, file, hints, { input: "http", owner: e.auth.id }))
    })
  },
  require(`${__hooks}/lib/routes.js`).oneErrorForm(),
  require(`${__hooks}/lib/routes.js`).usersOnly(),
  // The form's own lines come on top of the file.
  $apis.bodyLimit(require(`${__hooks}/lib/config.js`).maxUploadMb() * 1024 * 1024 + 64 * 1024),
)
