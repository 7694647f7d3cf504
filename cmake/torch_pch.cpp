// The precompiled header of every component that uses LibTorch belongs to this otherwise empty unit.
