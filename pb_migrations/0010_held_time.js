/// Since when an operation is held, and for how many seconds it was before without a slice coming of
/// it: only that is a recogniser's silence, and not the time in which others had their turn.
migrate(
  (app) => {
    const operations = app.findCollectionByNameOrId("operations")
    operations.fields.add(new DateField({ name: "held_since" }))
    operations.fields.add(new NumberField({ name: "held" }))
    app.save(operations)
  },
  (app) => {
    const operations = app.findCollectionByNameOrId("operations")
    operations.fields.removeByName("held_since")
    operations.fields.removeByName("held")
    app.save(operations)
  },
)
