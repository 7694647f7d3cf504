#pragma once

/// The format "clinc": CLINC150's JSON: lists of [text, intent] under names that tell the split ("train", "val",
/// "test"; "oos_train" and so on are the out-of-scope queries of the same splits).
