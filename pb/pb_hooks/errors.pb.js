/// Whatever else is asked for under a root of ours gets our 404 and not PocketBase's.

for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
  for (const root of ["/api/audio", "/api/status", "/api/transcript", "/api/queue", "/api/operations"]) {
    const taken = method === "POST" && (root === "/api/audio" || root === "/api/operations")
    for (const path of taken ? [`${root}/{path...}`] : [root, `${root}/{path...}`]) {
      routerAdd(
        method,
        path,
        (e) => {
          const { errors } = require(`${__hooks}/lib/index.js`)
          return errors.respond(e, new errors.Refusal("not_found"))
        },
        require(`${__hooks}/lib/routes.js`).oneErrorForm(),
      )
    }
  }
}
