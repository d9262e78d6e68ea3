package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/clocktest"
)

// A caller that has seen an older state gets the newer one, without a fetch.
func TestCachedTriesOnceForAll(t *testing.T) {
	fetches, failure := 0, error(nil)
	c := cached[int]{now: clocktest.New().Now, background: newBackground()}
	defer c.background.close()
	c.fetch = func(context.Context) (int, error) { fetches++; return fetches, failure }
	renew := func(seen int) state[int] {
		t.Helper()
		got, err := c.renew(t.Context(), seen)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := renew(0); got.value != 1 || got.tries != 1 {
		t.Errorf("first: %+v", got)
	}
	if got := renew(0); got.value != 1 || fetches != 1 {
		t.Errorf("with old knowledge: %+v after %d fetches", got, fetches)
	}
	failure = errors.New("down")
	if got := renew(1); got.value != 1 || got.err != failure || got.tries != 2 {
		t.Errorf("after a failure: %+v", got)
	}
	c.permitted = func() bool { return false }
	if got := renew(2); got.tries != 2 || fetches != 2 {
		t.Errorf("not permitted: %+v", got)
	}
}

// Of two that wait, one may go away, and the other gets the answer.
func TestCachedOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cached[string]{now: time.Now, background: newBackground()}
		c.fetch = func(ctx context.Context) (string, error) {
			if !sleep(ctx, time.Minute) {
				return "", ctx.Err()
			}
			return "found", nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			if _, err := c.renew(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the first: %v", err)
			}
		}()
		time.Sleep(time.Millisecond)
		got, err := c.renew(t.Context(), 0)
		if err != nil || got.value != "found" {
			t.Errorf("the second: %+v, %v", got, err)
		}
		c.background.close()
		if _, err := c.renew(t.Context(), 1); !errors.Is(err, errClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}
