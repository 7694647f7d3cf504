#include "apps/cli/cli.h"

int main(int argc, char** argv) { return chorus::cli::run(argc, argv); }
