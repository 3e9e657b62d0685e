/// What was handed in. A sender sees its own; nobody but the service creates one; the owner may
/// edit the hints and the title in the panel at any moment.
migrate(
  (app) => {
    const users = app.findCollectionByNameOrId("users")
    // A recording from Telegram has no owner, and a guest's id is empty too: both must be named.
    const own = '@request.auth.collectionName = "users" && owner != "" && owner = @request.auth.id'

    app.save(
      new Collection({
        type: "base",
        name: "recordings",
        listRule: own,
        viewRule: own,
        createRule: null,
        updateRule: null,
        deleteRule: null,
        fields: [
          // The real limit is MAX_UPLOAD_MB, at the intake.
          { type: "file", name: "audio", protected: true, maxSize: 2 ** 40 },
          { type: "file", name: "normalized", protected: true, maxSize: 2 ** 40 },
          { type: "relation", name: "owner", collectionId: users.id },
          { type: "select", name: "source", values: ["http", "telegram"], required: true },
          { type: "text", name: "extension", max: 32 },
          { type: "number", name: "size" },
          { type: "number", name: "duration" },
          { type: "text", name: "title", max: 300, presentable: true },
          { type: "text", name: "language", max: 20 },
          { type: "text", name: "vocabulary", max: 2000 },
          { type: "autodate", name: "created", onCreate: true, presentable: true },
          { type: "autodate", name: "updated", onCreate: true, onUpdate: true },
        ],
        indexes: ["CREATE INDEX idx_recordings_owner ON recordings (owner, created)"],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("recordings"))
  },
)
