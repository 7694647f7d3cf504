#pragma once

/// The format "clinc": CLINC150's JSON: lists of [text, intent] under names that give the split ("train", "val",
/// "test"; "oos_train" and so on are out-of-scope queries).
