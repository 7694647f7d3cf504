#pragma once

#include <torch/autograd.h>
#include <torch/types.h>
