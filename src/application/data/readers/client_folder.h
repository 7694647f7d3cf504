#pragma once

/// The format "clients": a folder of client_NAME.jsonl (or .jsonl.gz) files, one per client, sorted by name (numbers by
/// value). Each is read as JSONL; a record without a client gets NAME. All files must have the formulation of the
/// first.
