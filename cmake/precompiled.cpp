// A precompiled header needs a source to belong to; see cmake/precompiled.cmake.
