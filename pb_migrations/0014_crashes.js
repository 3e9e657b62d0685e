/// How often the process that held an operation came back from its death since something of it was
/// last written. A lease that merely ran out is no crash: its holder may have been asleep or cut off.
migrate(
  (app) => {
    const operations = app.findCollectionByNameOrId("operations")
    operations.fields.add(new NumberField({ name: "crashes" }))
    app.save(operations)
  },
  (app) => {
    const operations = app.findCollectionByNameOrId("operations")
    operations.fields.removeByName("crashes")
    app.save(operations)
  },
)
