#pragma once

/// The format "leaf": LEAF's JSON (Caldas et al. 2018): {"users": [...], "num_samples": [...], "user_data": {user:
/// {"x": [...], "y": [...]}}}, read one user at a time. The user becomes the client. An x that is a list is a row of
/// Sent140 (its fifth field is the text) when it has five or more strings, else a list of words. A y that is a string
/// or number is the label; with formulation language_model a string y continues x (Shakespeare) and is appended. x and
/// y of different lengths and wrong num_samples are DataErrors that name the user.
