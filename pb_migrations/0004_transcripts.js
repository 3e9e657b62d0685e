/// The texts. A sender sees those of its own recordings.
migrate(
  (app) => {
    const recordings = app.findCollectionByNameOrId("recordings")
    const own =
      '@request.auth.collectionName = "users" && recording.owner != "" && recording.owner = @request.auth.id'

    app.save(
      new Collection({
        type: "base",
        name: "transcripts",
        listRule: own,
        viewRule: own,
        fields: [
          {
            type: "relation",
            name: "recording",
            collectionId: recordings.id,
            cascadeDelete: true,
            required: true,
          },
          { type: "select", name: "kind", values: ["raw", "proofread"], required: true },
          { type: "text", name: "text", max: 50_000_000 },
          { type: "json", name: "segments", maxSize: 200_000_000 },
          { type: "text", name: "language", max: 20 },
          { type: "text", name: "engine", max: 200 },
          // An empty text that says so is a result; an empty text that does not is a fault.
          { type: "bool", name: "no_speech" },
          { type: "autodate", name: "created", onCreate: true },
          { type: "autodate", name: "updated", onCreate: true, onUpdate: true },
        ],
        indexes: ["CREATE UNIQUE INDEX idx_transcripts_kind ON transcripts (recording, kind)"],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("transcripts"))
  },
)
