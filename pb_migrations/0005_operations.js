/// The local recogniser's own state: an operation for each recording being recognised, and what its
/// slices gave so far.
migrate(
  (app) => {
    const recordings = app.findCollectionByNameOrId("recordings")
    app.save(
      new Collection({
        type: "base",
        name: "operations",
        fields: [
          {
            type: "relation",
            name: "recording",
            collectionId: recordings.id,
            cascadeDelete: true,
            required: true,
          },
          { type: "select", name: "state", values: ["queued", "done", "failed"], required: true },
          { type: "text", name: "language", max: 20 },
          { type: "text", name: "vocabulary", max: 2000 },
          { type: "number", name: "duration" },
          // Slices as [[start, end], ...] in seconds; null until the recording is cut.
          { type: "json", name: "units", maxSize: 20_000_000 },
          { type: "number", name: "speech" }, // seconds in all slices
          { type: "number", name: "recognised" }, // seconds in those written
          { type: "text", name: "detected", max: 20 },
          { type: "text", name: "engine", max: 200 },
          { type: "number", name: "attempts" }, // claims since the last slice was written
          { type: "text", name: "lease_token", max: 64 },
          { type: "date", name: "leased_at" },
          { type: "text", name: "leased_by", max: 200 },
          { type: "date", name: "progressed_at" },
          { type: "number", name: "priority" },
          { type: "text", name: "error_text", max: 4000 },
          { type: "autodate", name: "created", onCreate: true },
          { type: "autodate", name: "updated", onCreate: true, onUpdate: true },
        ],
        indexes: [
          "CREATE UNIQUE INDEX idx_operations_recording ON operations (recording)",
          "CREATE INDEX idx_operations_claim ON operations (state, priority DESC, created, id)",
        ],
      }),
    )

    const operations = app.findCollectionByNameOrId("operations")
    app.save(
      new Collection({
        type: "base",
        name: "segments",
        fields: [
          {
            type: "relation",
            name: "operation",
            collectionId: operations.id,
            cascadeDelete: true,
            required: true,
          },
          { type: "number", name: "unit" },
          { type: "json", name: "segments", maxSize: 2_000_000 },
        ],
        indexes: ["CREATE UNIQUE INDEX idx_segments_unit ON segments (operation, unit)"],
      }),
    )
  },
  (app) => {
    app.delete(app.findCollectionByNameOrId("segments"))
    app.delete(app.findCollectionByNameOrId("operations"))
  },
)
