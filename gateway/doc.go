// Package gateway is the auth gateway itself: it takes requests from
// listeners, finds out who asks, decides, and forwards.
//
// # A request's way
//
//	listener ── state ── canonical request ──┬── own endpoint (login, callback, logout, me, ...)
//	            (one                         └── route ── authenticate ── decide ── rewrite ── upstream
//	             atomic                                   gateway/auth    policy    headers    balancer
//	             load)
//
// An exchange is one request on this way. It reads the request's target, host
// and credentials once, into values that everything after goes by, so that
// what is decided on is what is forwarded. Whatever goes wrong comes back as
// an error, and toHTTP is the one place that makes a status of it. At the end
// there is one update of the metrics and one line in the log.
//
// # What lives how long
//
// A state is made from one configuration by build and never changed: routes,
// policies, mechanisms with their caches, own endpoints. Reload builds a new
// one, which can fail, and then swaps one pointer, which cannot. What must
// outlive a configuration is outside: the store, the counters of failed
// logins and the cache of verified passwords, metrics, listeners, and the
// upstreams that stay the same, with their warm connections.
//
// A gateway ends so that clients can go elsewhere before they have to; drain
// has the steps. Many instances may share a store on Redis, and then have
// nothing else in common; settledStore lets one start before its store does.
//
// # Logins
//
// Each sign-in is one record in the store (login.Login), named by its sid.
// Sessions, refresh tokens and access tokens are handles that lead to it and
// are dead without it, so logout, a reused refresh token and a changed
// account all end in the same place, with one atomic delete. A warm request
// finds all of this in memory: stores answer repeated reads from a coherent
// cache, and mechanisms keep what they decoded or verified for as long as
// the store still holds the same bytes.
//
// Requests under way are looked at four times a second: streams asks whether
// their credentials would still be let in, and ends those that would not.
//
// # Time
//
// There are two clocks. What is stored, and what instances have to agree on, goes
// by the clock of the store (store.ClockOf): that of Redis, or the wall clock.
// What one process measures, such as windows and pauses, goes by the local clock,
// whose monotonic reading does not change when the wall clock is set, and so do
// certificates and what providers say.
//
// A request waits for the store for a bounded time over all of its calls; see
// storeContext.
//
// # Providers
//
// A person whom a provider vouches for ends with a login and a session like
// anybody else; the record of the login holds the provider's tokens, sealed,
// and one record a person holds what the provider said last, so that roles
// which change are seen by all sessions of that person. Logins are in groups,
// by local account, by person and by session at the provider, and a logout there
// ends the group.
// What a provider is to the gateway (discovery, keys, the protocol) is in
// gateway/provider; it lives as long as its part of the configuration stays
// the same, over reloads.
//
// # To the upstream
//
// An upstream has one or more addresses; a balancer takes them in turn and
// passes over those that cannot be reached. HTTP/1.1, over TCP and TLS, is
// gateway/http1, which has the rules for using a connection again and sends a
// request twice at most. http.Transport serves https targets that choose
// HTTP/2 in the handshake.
//
// # Packages
//
//	policy            identity, canonical request, policies, routes, the decision; pure
//	gateway/auth      mechanisms, accounts, passwords, throttling, logins
//	gateway/provider  an identity provider as its relying party sees it
//	gateway/http1     a client for upstreams that speak HTTP/1.1
//	gateway/acme      certificates from an authority, got and renewed
//	gateway/store     the contract; memory; sqlitestore; redisstore; storetest, the suite all pass
//	gateway/conn      connections of clients: which wait, which give way, how they end
//	gateway/config    YAML to Config, with every mistake in its place
//	gateway/pages     the few pages that a person sees
//	gateway/password  password hashes, made and checked
//	gateway/keyfile   generated keys, kept over restarts
//	gateway/seal      encrypts what the store must not give away
//	gateway/strictjson  refuses JSON with two meanings
//	gateway/headername  header names that applications believe, in any spelling
//	gateway/cookiename  names that keep the cookies of applications apart
//	cmd/internal/app  the life of a process: open, serve, reload, stop
//
// Imports run one way: policy, store, conn, pages, password, keyfile, seal,
// strictjson, headername, cookiename and http1 import nothing of ours; config
// imports policy, password, headername and cookiename; provider imports policy
// and strictjson; acme imports store and seal; auth imports all but config,
// pages, acme and headername; gateway imports them all; cmd imports gateway.
//
// # Limits and threats
//
// The gateway promises that an upstream sees an identity only where one was
// proved, under header names that no client can write, and that a request
// goes through only where a route and its policy say so. It fails closed: no
// route is 404, a store that does not answer is 503, two meanings are 400. It
// needs upstreams that can be reached through it alone, and that read a path
// as it does (see policy.ParseTarget).
package gateway
