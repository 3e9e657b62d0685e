/// Who recognises: the owner's choice for one recording (empty: as the settings say), and whose
/// operation a row is (empty: the local engines').
migrate(
  (app) => {
    const recordings = app.findCollectionByNameOrId("recordings")
    recordings.fields.add(
      new SelectField({ name: "recogniser", values: ["local", "openai", "speechkit"] }),
    )
    app.save(recordings)
    const operations = app.findCollectionByNameOrId("operations")
    operations.fields.add(new TextField({ name: "recogniser", max: 32 }))
    app.save(operations)
  },
  (app) => {
    // Without the column the engines would take what is not theirs.
    app.db().newQuery("DELETE FROM segments WHERE operation IN (SELECT id FROM operations WHERE recogniser <> '')").execute()
    app.db().newQuery("DELETE FROM operations WHERE recogniser <> ''").execute()
    for (const name of ["operations", "recordings"]) {
      const collection = app.findCollectionByNameOrId(name)
      collection.fields.removeByName("recogniser")
      app.save(collection)
    }
  },
)
