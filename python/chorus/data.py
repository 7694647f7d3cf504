"""Data frames and Hugging Face datasets as files that chorus reads."""

import json
from pathlib import Path


def write_data(data, folder, columns=None):
    """Writes data as JSON lines into a folder, and returns the settings that read them.

    `data`: a pandas DataFrame, a Hugging Face Dataset or DatasetDict, a dictionary of these by split (train,
    validation, test), or a list of dictionaries. `columns` names the columns by role, as data.columns in a
    configuration: {"text": "title", "label": "topic", "client": "author"}. A Dataset's ClassLabel becomes its name.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    splits = data if isinstance(data, dict) or _is_dataset_dict(data) else {"train": data}
    result = {}
    for split, part in splits.items():
        if split not in ("train", "validation", "test"):
            raise ValueError(f"a split is called {split!r}; use train, validation and test")
        path = folder / f"{split}.jsonl"
        count = 0
        with open(path, "w", encoding="utf-8") as file:
            for row in _rows(part):
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
                count += 1
        if count == 0:
            raise ValueError(f"the {split} split is empty")
        result[f"data.{split}"] = [str(path)]
    result["data.format"] = "jsonl"
    for role, name in (columns or {}).items():
        result[f"data.columns.{role}"] = name
    return result


def is_data(value):
    """Whether this is data rather than the name of a file."""
    return hasattr(value, "to_dict") or _is_dataset_dict(value) or isinstance(value, (dict, list))


def _is_dataset_dict(value):
    return type(value).__name__ == "DatasetDict"


def _rows(part):
    if hasattr(part, "itertuples"):  # a DataFrame
        for row in part.to_dict(orient="records"):
            yield {str(key): _plain(value) for key, value in row.items() if not _is_missing(value)}
        return
    names = {}
    for column, feature in (getattr(part, "features", None) or {}).items():
        if hasattr(feature, "int2str"):
            names[column] = feature.int2str
    for row in part:
        yield {
            key: names[key](value) if key in names and isinstance(value, int) and value >= 0 else _plain(value)
            for key, value in row.items()
            if not _is_missing(value)
        }


def _is_missing(value):
    return value is None or (isinstance(value, float) and value != value)


def _plain(value):
    """numpy numbers, lists and time stamps as JSON has them."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(more) for more in value]
    return value
