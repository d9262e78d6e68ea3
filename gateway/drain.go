package gateway

import (
	"context"
	"sync"
	"time"
)

// cutTime is for what is cut off to end. Who does not end by then is left to
// the end of the process: net/http waits without bound to say goodbye by TLS
// to a client that holds up what TLS itself writes.
const cutTime = time.Second

// tellEvery is how often connections over HTTP/2 are told that the server
// shuts down. net/http tells those that it knows of, and waits for the others
// as well: those whose handshake ends later. It is short because net/http looks
// ever more rarely whether connections are closed.
const tellEvery = 100 * time.Millisecond

// drain is the end of Serve, in steps that no client has to notice:
//
//	unready ── shutdown_delay ── listeners close, WebSockets ── requests under way, ── admin closes
//	                             are told, idle connections     up to shutdown_timeout;
//	                             are closed                     clients read to the end
//
// Until the listeners close all is served as before, new connections too, but
// answers ask clients to come back by another one (see exchange.WriteHeader).
// Idle connections are not cut meanwhile: a request may be on its way on them.
func (s *Server) drain() {
	cfg := s.gateway.Config()
	s.logger.Info("stopping", "shutdown_delay", cfg.ShutdownDelay.String(), "shutdown_timeout", cfg.ShutdownTimeout.String())
	s.gateway.draining.Store(true)
	deadline := time.Now().Add(cfg.ShutdownDelay + cfg.ShutdownTimeout)
	s.clients.Linger(deadline)
	time.Sleep(cfg.ShutdownDelay)

	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	s.clients.Leave()
	var public sync.WaitGroup
	for _, l := range s.serving {
		if l.name != "admin" {
			public.Go(func() { s.shutdown(ctx, l) })
		}
	}
	s.gateway.sockets.Leave(deadline)
	done := make(chan struct{})
	go func() {
		defer close(done)
		public.Wait()
		if n := s.gateway.sockets.Wait(); n > 0 {
			s.logger.Warn("WebSockets were cut off", "count", n)
		}
		if n := s.clients.Wait(); n > 0 { // last: any of the others may have to linger
			s.logger.Warn("connections were cut off whose clients had not read everything", "count", n)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Until(deadline) + cutTime):
		s.logger.Warn("connections that could not be closed are left behind")
	}
	for _, l := range s.serving {
		if l.name == "admin" { // readiness can be asked for until the end
			s.probes.Leave()
			s.shutdown(ctx, l)
		}
	}
}

// shutdown closes a listener and waits for the requests on it. Those that go
// on when ctx ends are cut off.
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
