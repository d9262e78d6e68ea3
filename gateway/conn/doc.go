// Package conn keeps account of the connections of clients: which of them wait
// for a request, which of them give way when there are too many, and how each
// of them ends.
//
// A Set has the connections of one or more listeners. It learns from
// http.Server what happens on them (Set.State), under whatever layers the
// server sees them through: TLS, for instance. A connection waits until it has
// sent the whole header of a request: the first one, or the next.
//
// In a stop, connections that wait are closed at once (Set.Leave). One that
// ends with an answer stays until the client's system has all of it
// (Set.Linger). What a client sends never keeps a connection open.
package conn
