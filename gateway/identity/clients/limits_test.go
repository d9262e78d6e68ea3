package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
)

// hosts are the sites of documents, without a network: those whose names begin with slow answer
// never, all others at once.
type hosts struct {
	fetched atomic.Int64
	waiting atomic.Int64 // for slow ones
}

func (h *hosts) RoundTrip(q *http.Request) (*http.Response, error) {
	h.fetched.Add(1)
	if strings.HasPrefix(q.URL.Host, "slow") {
		h.waiting.Add(1)
		defer h.waiting.Add(-1)
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	text := strings.ReplaceAll(appDocument, "{ID}", q.URL.String())
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// newHosts returns clients whose documents are at hosts.
func newHosts(t *testing.T) (*rig, *hosts) {
	t.Helper()
	h, r := &hosts{}, newRig(t, "{}", nil)
	r.documents.fetcher.http.Transport = h
	return r, h
}

// ask asks for documents from addresses, all at the same time, and reports how many were refused
// because their address asks for too many.
func (r *rig) ask(ctx context.Context, n int, from func(i int) netip.Addr, id func(i int) string) *atomic.Int64 {
	refused := &atomic.Int64{}
	for i := range n {
		go func() {
			_, err := r.Set.Find(ctx, id(i), from(i))
			if _, ok := errors.AsType[*auth.StartsError](err); ok {
				refused.Add(1)
			}
		}()
	}
	return refused
}

// settle waits until all fetches have ended.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// address returns a different address for each number.
func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}) }

// network returns addresses that are all of one client: the same /64.
func network(i int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))
}

// A client that names documents at slow hosts has a share of the places, and delays no other client.
// A caller who leaves does not make room for more.
func TestSlowHostsOfOneClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, h := newHosts(t)
		leaving, leave := context.WithCancel(t.Context())
		slow := func(i int) string { return fmt.Sprintf("https://slow%d.example/app.json", i) }
		r.ask(leaving, 50, network, slow)
		synctest.Wait()
		leave()
		refused := r.ask(t.Context(), 50, network, func(i int) string { return slow(50 + i) })
		synctest.Wait()
		if n := h.waiting.Load(); n != fetchesOfOne {
			t.Errorf("%d fetches of one client at a time, want %d", n, fetchesOfOne)
		}
		begun := time.Now()
		if _, err := r.Set.Find(t.Context(), "https://app.example/app.json", address(1)); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("another client waits for %v", took)
		}
		time.Sleep(waitForPlace)
		synctest.Wait()
		if n := refused.Load(); n == 0 {
			t.Error("nothing was refused to the client that asks for too many")
		}
		// Its other documents come when the slow ones are given up.
		settle()
		if _, err := r.Set.Find(t.Context(), "https://other.example/app.json", network(0)); err != nil {
			t.Errorf("after its fetches: %v", err)
		}
	})
}

// A host that is slow has a share of the places, however many clients name documents there.
func TestSlowHostOfManyClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, h := newHosts(t)
		r.ask(t.Context(), 100, address, func(i int) string {
			return fmt.Sprintf("https://%s:%d/app-%d.json", []string{"slow.example", "SLOW.example"}[i%2], 1000+i, i)
		})
		synctest.Wait()
		if n := h.waiting.Load(); n != fetchesAtAHost {
			t.Errorf("%d fetches from one host at a time, want %d", n, fetchesAtAHost)
		}
		begun := time.Now()
		if _, err := r.Set.Find(t.Context(), "https://app.example/app.json", address(1000)); err != nil ||
			time.Since(begun) > 0 {
			t.Errorf("a document at another host comes after %v: %v", time.Since(begun), err)
		}
		settle()
	})
}

// So many documents are fetched at a time, and no more. That there is no place says nothing about a
// document.
func TestDocumentsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, h := newHosts(t)
		r.ask(t.Context(), 2*maxFetches, address, func(i int) string {
			return fmt.Sprintf("https://slow%d.example/app.json", i)
		})
		synctest.Wait()
		if n := h.waiting.Load(); n != maxFetches {
			t.Errorf("%d fetches at a time, want %d", n, maxFetches)
		}
		_, err := r.Set.Find(t.Context(), "https://app.example/app.json", address(1000))
		if !errors.Is(err, errCrowded) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("one more: %v", err)
		}
		settle()
		if _, err := r.Set.Find(t.Context(), "https://app.example/app.json", address(1000)); err != nil {
			t.Errorf("one more, again: %v", err)
		}
	})
}

// A client can name so many documents as it can begin sign-ins. What is known needs no fetch, and so
// is not refused.
func TestManyDocumentsOfOneClient(t *testing.T) {
	t.Parallel()
	r, h := newHosts(t)
	const known = "https://app.example/known.json"
	if _, err := r.Set.Find(t.Context(), known, address(0)); err != nil {
		t.Fatal(err)
	}
	r.Keep(&Client{ID: known, Document: true})
	refused := 0
	for i := range 1200 {
		_, err := r.Set.Find(t.Context(), fmt.Sprintf("https://app.example/%d.json", i), network(i))
		if starts, ok := errors.AsType[*auth.StartsError](err); ok && starts.RetryAfter > 0 {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 200 || h.fetched.Load() != 1001 {
		t.Errorf("%d documents were refused, and %d fetched", refused, h.fetched.Load())
	}
	r.clock.Advance(time.Hour)
	if _, err := r.Set.Find(t.Context(), known, network(0)); err != nil {
		t.Errorf("a document that was fetched before: %v", err)
	}
	if _, err := r.Set.Find(t.Context(), "https://app.example/other.json", address(0)); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// What strangers name does not make the gateway forget the client that a user has allowed something.
func TestUsedDocumentsAreKept(t *testing.T) {
	t.Parallel()
	r, h := newHosts(t)
	find := func(i int, id string) *Client {
		t.Helper()
		client, err := r.Set.Find(t.Context(), id, address(i))
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	const id = "https://app.example/app.json"
	r.Keep(find(0, id))
	for i := range 2 * cached {
		find(i, fmt.Sprintf("https://evil.example/%d.json", i))
	}
	before := h.fetched.Load()
	find(0, id)
	if h.fetched.Load() != before {
		t.Error("it was fetched again")
	}
	// It stays when it is fetched again, and ends when its site says so.
	r.clock.Advance(freshUsually)
	find(0, id)
	for i := range 2 * cached {
		find(i, fmt.Sprintf("https://evil.example/more-%d.json", i))
	}
	before = h.fetched.Load()
	find(0, id)
	if h.fetched.Load() != before {
		t.Error("it was fetched once more")
	}
}
