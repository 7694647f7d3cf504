#pragma once

#include <filesystem>

#include "core/base/result.h"
#include "infrastructure/http/http_server.h"

namespace chorus::inline http {

/// One request to a server on a Unix socket. A failure (kDisconnected): nobody listens there.
///
///     http_ask(fleet / "server.sock", {"GET", "/status"}).value().body
Result<HttpResponse> http_ask(const std::filesystem::path& socket, const HttpRequest& request, double seconds = 10);

}  // namespace chorus::inline http
