package server

import (
	"context"
	"sync"
	"time"
)

// cutTime is how long connections may take to close after they were cut off.
// drain does not wait longer: net/http sends the closing message of TLS without
// a time limit, and a client that does not read can hold it up.
const cutTime = time.Second

// tellEvery is how often http.Server.Shutdown is called. Each call sends GOAWAY
// on the HTTP/2 connections that exist then, and a handshake may end later. It
// is short because Shutdown polls ever more rarely whether connections are
// closed.
const tellEvery = 100 * time.Millisecond

// youngTime is how long connections to sockets that stay open may take from their beginning to
// their first request, or a quarter of a short shutdown_timeout. Others are closed then, without an answer.
const youngTime = time.Second

// drain ends Serve in these steps:
//
//	unready ── shutdown_delay ── listeners close; WebSockets ── requests in flight: ── admin closes
//	                             are told; idle connections     up to shutdown_timeout;
//	                             are closed                     clients read to the end
//
// Until the listeners close, the server answers as before, also on new
// connections, but each answer asks its client to use another connection. Idle
// connections stay open until then: a request may be on its way.
//
// Sockets that stay open leave new connections to the next process, youngTime before the listeners
// close. Until then the requests of connections that were accepted last come.
//
// Over HTTP/3 answers cannot ask for that. Clients get GOAWAY when the listeners
// close, and send requests that were on their way again (RFC 9114, section 5.2).
func (s *Server) drain() {
	cfg := s.gateway.Config()
	s.logger.Info("stopping", "shutdown_delay", cfg.ShutdownDelay.String(),
		"shutdown_timeout", cfg.ShutdownTimeout.String())
	s.draining.Store(true)
	s.gateway.Drain()
	deadline := time.Now().Add(cfg.ShutdownDelay + cfg.ShutdownTimeout)
	s.clients.Linger(deadline)
	time.Sleep(cfg.ShutdownDelay)

	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	s.pause(ctx, min(youngTime, cfg.ShutdownTimeout/4))
	s.drainClients(ctx, deadline)
	for _, l := range s.serving {
		if l.name == nameAdmin {
			s.probes.Leave()
			s.shutdown(ctx, l)
		}
	}
}

// pause leaves new connections to the next process, where sockets stay open, and waits for the requests of others.
func (s *Server) pause(ctx context.Context, young time.Duration) {
	paused := false
	for _, l := range s.serving {
		if l.inherited != nil && l.name != nameAdmin {
			l.inherited.pause()
			paused = true
		}
	}
	if paused {
		select {
		case <-time.After(young):
		case <-ctx.Done():
		}
	}
}

// drainClients closes the public listeners and waits for their connections, for
// little longer than until deadline.
func (s *Server) drainClients(ctx context.Context, deadline time.Time) {
	s.clients.Leave()
	var public sync.WaitGroup
	for _, l := range s.serving {
		if l.name != nameAdmin {
			public.Go(func() { s.shutdown(ctx, l) })
		}
	}
	if s.http3 != nil {
		public.Go(func() {
			if err := s.http3.shutdown(ctx); err != nil {
				s.logger.Warn("requests were cut off", "listener", nameHTTP3, "error", err.Error())
			}
		})
	}
	s.gateway.WebSockets().Leave(deadline)
	done := make(chan struct{})
	go func() {
		defer close(done)
		public.Wait()
		if n := s.gateway.WebSockets().Wait(); n > 0 {
			s.logger.Warn("WebSockets were cut off", "count", n)
		}
		if n := s.clients.Wait(); n > 0 { // last, because any of the others may linger
			s.logger.Warn("connections were cut off whose clients had not read everything", "count", n)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Until(deadline) + cutTime):
		s.logger.Warn("connections that could not be closed are left behind")
	}
}

// shutdown closes a listener and waits for the requests on it. It cuts off
// those that are in flight when ctx ends.
func (s *Server) shutdown(ctx context.Context, l serving) {
	for {
		step, cancel := context.WithTimeout(ctx, tellEvery)
		err := l.server.Shutdown(step)
		cancel()
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			s.logger.Warn("requests were cut off", "listener", l.name, "error", err.Error())
			l.server.Close()
			return
		}
	}
}
