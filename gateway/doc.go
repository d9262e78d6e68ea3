// Package gateway is the auth gateway: it takes requests from listeners, finds
// out who makes them, decides, and forwards them to applications.
//
// # The way of a request
//
//	listener ── state ── canonical request ──┬── own endpoint (login, callback, logout, me, ...)
//	(wire)      (one                         │   (endpoint)
//	             atomic                      └── route ── authenticate ── decide ── forward ── upstream
//	             load)                                    (identity,      (policy)  (proxy)
//	                                                      login)
//
// An exchange is one request on this way. [Gateway.ServeHTTP] begins it, serve
// leads it, finish ends it. read looks once at the target, the host and the credentials. Everything
// after goes by these values, so that the gateway forwards the request that it has decided on.
//
// A pool (exchanges) reuses an exchange when nothing else refers to it. Mechanisms get a part of
// it, web.Lent, with memory of its own: they may keep it for work that goes on after the answer.
//
// A proxy may only ask whether a request may pass (verify.go). The request that it
// describes takes the place of its own in the exchange, and the same way up to
// the decision. There is no second engine. An [Explainer] takes a request that is
// only described (gateway/explain) along this way, with an identity in the place of authentication.
//
// Errors go one way. Functions return them, web.Exchange.Fail answers them, and
// one function there maps them to HTTP. finish updates the metrics and writes
// one line to the log. An answer that breaks off on its way from an upstream is a
// panic with http.ErrAbortHandler, and finish panics so again: it makes the server
// cut off an answer that is not whole.
//
// # Lifetimes
//
// A state is made from one configuration and does not change while it runs:
// routes, policies, mechanisms with their caches, own endpoints. build makes it
// with one constructor for each part, and can fail. Then [Gateway.Reload] swaps
// one pointer, which cannot fail. Things that outlive a configuration are
// outside the state: the store, the counters of failed logins, the cache of
// verified passwords, metrics and listeners. Upstreams and identity providers
// that stay the same move from one state to the next, with their connections
// and keys.
//
// A gateway stops in steps, so that clients can go elsewhere in time; see
// gateway/proxy/server. Several instances may share a store on Redis, and share
// nothing else. When a reload of one instance takes an account or a role from a user,
// the other instances take it away too; see accounts.Changes. A gateway may start
// before Redis answers: guard.Gate refuses logins until it does. If the store cannot be written, the accounts of a
// reload apply all the same, and the store learns of them later; see settle.
//
// # Logins
//
// Each sign-in is one record in the store (login.Login), named by its sid.
// Sessions, refresh tokens and access tokens are handles that lead to the
// record, and open nothing without it. Logout, a reused refresh token and a
// changed account all end a login in the same way: one atomic delete. A warm
// request finds all of this in memory. Stores answer repeated reads from a
// coherent cache, and mechanisms keep decoded and verified values for as long as the store holds
// the same bytes.
//
// Users sign in at the host of public_url. Each other host of the gateway gets
// a session of its own for the same login, by a ticket that a browser brings. A
// browser that has not proved that it began the sign-in there gets a page that asks,
// and no ticket. A session is worth nothing at any other host, unless session.domain
// shares it.
//
// Requests in flight are checked four times a second: gateway/proxy/streams asks
// whether their credentials would still be accepted, once for all of a login, and
// ends those for which the answer is no.
//
// # Time
//
// There are two clocks. Times that are stored, and times on which instances must
// agree, come from the clock of the store (store.ClockOf): that of Redis, or the
// wall clock. Windows and pauses of one process, certificates and the times in
// providers' tokens go by the local clock.
//
// A request waits for the store for a bounded time over all of its calls; see
// guard.Context.
//
// # Identity providers
//
// A user who signs in at an identity provider gets a login and a session like
// any other user. The record of the login holds the provider's tokens,
// encrypted. One record for each user holds the last claims of the provider, so that all sessions
// of the user see changed roles. Logins are in groups, by local account, by user and by session at
// the provider, and a logout there ends the group.
//
// # OAuth clients
//
// Applications may use the gateway's sign-in by OAuth and OpenID Connect. gateway/endpoint/oauth speaks
// the protocols, gateway/identity/clients knows the applications, and gateway/login/grants keeps their grants. A
// grant is lent by a login: it lives on when the session ends by time, and ends with the login. The login knows
// which applications have an ID token for it. The one place that ends a login tells them.
//
// # Packages
//
// docs/code-map.md lists the packages in their order, with their tasks. A package imports only
// packages above it there; a test reads the list. Some choices may surprise:
//
//   - policy has its own table of routes, with the rules of net/http.ServeMux. A
//     ServeMux compares a pattern with most others, which is quadratic, and
//     allocates at each lookup. A fuzz test compares the two.
//   - guard is apart from store, because back ends do not need it, and apart from
//     gateway, because it knows nothing of HTTP.
//   - exchange embeds web.Exchange. The code that answers, logs and reads a request
//     is in web, so that endpoints need nothing of this package. forward.Request has
//     the values to forward a request, and to end it from outside.
//   - The protection against other sites is in web, because routes and own
//     endpoints share it.
//   - trusted is apart from login, because its tokens belong to no login, and
//     journey, because it is about a browser that has none yet.
//   - mechanism is apart from login, because it reads the configuration. It and own are
//     apart from gateway, because own endpoints are tested without a gateway.
//   - signin, relyingparty, account, people and oauth import signout, and relyingparty and
//     account import signin: they end logins, lead users on and give new tokens in the
//     same way as a logout and a sign-in.
//
// # Limits and threats
//
// An upstream sees an identity only if a request has proved it, under header
// names that no client can write. A request goes through only if a route and its
// policy allow it. The gateway fails closed: no route is 404, a store that does
// not answer is 503, a request with two meanings is 400. It needs upstreams that
// are reachable through it alone, and that read a path as it does (see
// policy.ParseTarget).
package gateway
