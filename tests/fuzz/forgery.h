#pragma once

#include "core/ports/message.h"
#include "tests/fuzz/dice.h"

namespace chorus::inline fuzz {

/// Changes one field of a message into anything that a frame can carry: other types, shapes and sizes, values that are
/// not finite, missing and foreign fields.
void forge(Message& message, Dice& dice);

}  // namespace chorus::inline fuzz
