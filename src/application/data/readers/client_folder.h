#pragma once

/// The format "clients": a folder of client_NAME.jsonl (or .jsonl.gz) files, one a client, in the order of their names
/// (numbers by value). Each is read as JSONL; a record that names no client itself gets NAME. All files must ask the
/// same (the first decides).
