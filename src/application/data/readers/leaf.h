#pragma once

/// The format "leaf": LEAF's JSON (Caldas et al. 2018): {"users": [...], "num_samples": [...], "user_data": {user:
/// {"x": [...], "y": [...]}}}, read one user at a time. The user becomes the client. An x that is a list is Sent140's
/// row (its fifth field is the text) when it has five or more strings, else its words in order.
/// A y that is a string or number is the label; asked for as language_model, a string y is the continuation of x
/// (Shakespeare) and joined to it. x and y of different length, or num_samples that do not fit, are DataErrors that
/// name the user.
