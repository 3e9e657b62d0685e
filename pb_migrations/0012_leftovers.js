/// What recordings that are gone left with a recogniser elsewhere, until it is removed there, too.
migrate(
  (app) => {
    app.save(
      new Collection({
        type: "base",
        name: "leftovers",
        fields: [
          { type: "text", name: "operation", max: 200, required: true },
          { type: "date", name: "not_before" },
          { type: "autodate", name: "created", onCreate: true },
        ],
        indexes: ["CREATE UNIQUE INDEX idx_leftovers_operation ON leftovers (operation)"],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("leftovers"))
  },
)
