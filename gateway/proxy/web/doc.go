// Package web is one exchange of the gateway with a client: the request as it
// was read once, the answer, and the records of both in metrics and logs.
//
// An [Exchange] is the http.ResponseWriter of its request, so that it knows the
// status and the size of every answer, its own or an upstream's. A handler
// answers with [Exchange.JSON], [Exchange.Page] or [Exchange.Redirect], or
// returns an error, which the gateway passes to [Exchange.Fail]. One function
// maps all errors to HTTP.
//
// The exchanges of one gateway share a [Service], and those of one configuration a [Site].
//
// # Limits and threats
//
// An answer tells a client the detail of an [Error] and nothing of its cause.
// The access log and the audit log hold no header but Host, no query, no body,
// and no text that a client may choose without bound.
//
// A client that sends its body slowly, or that does not read its answer, loses
// the connection after a bounded time. A browser sends cookies on behalf of any
// site: [CrossSite] refuses requests that another site must not make.
package web
