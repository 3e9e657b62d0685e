/// Who may log in: senders (`users`, made by the owner alone) and the service's own processes
/// (`workers`). Nobody registers himself.
migrate(
  (app) => {
    const users = app.findCollectionByNameOrId("users")
    users.createRule = null
    users.deleteRule = null
    users.authAlert.enabled = false // there is no mail server to send it through
    users.fields.getByName("email").presentable = true // so that lists show who handed in what
    users.fields.removeByName("avatar") // a file that its sender names, and nobody needs
    app.save(users)

    const owners = app.findCollectionByNameOrId("_superusers")
    owners.authAlert.enabled = false
    app.save(owners)

    app.save(
      new Collection({
        type: "auth",
        name: "workers",
        listRule: null,
        viewRule: null,
        createRule: null,
        updateRule: null,
        deleteRule: null,
        authAlert: { enabled: false },
        fields: [],
      }),
    )

    const settings = app.settings()
    settings.meta.appName = "transcriber"
    settings.logs.logIP = false // an address says who spoke
    app.save(settings)
  },
  (app) => {
    const settings = app.settings()
    settings.meta.appName = "Acme"
    settings.logs.logIP = true
    app.save(settings)

    app.delete(app.findCollectionByNameOrId("workers"))

    const owners = app.findCollectionByNameOrId("_superusers")
    owners.authAlert.enabled = true
    app.save(owners)

    const users = app.findCollectionByNameOrId("users")
    users.fields.getByName("email").presentable = false
    users.fields.add(new FileField({ name: "avatar", mimeTypes: ["image/jpeg", "image/png"] }))
    users.createRule = ""
    users.deleteRule = "id = @request.auth.id"
    users.authAlert.enabled = true
    app.save(users)
  },
)
