package provider

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A caller that has seen an older state gets the newer one, without a fetch.
func TestCachedTriesOnceForAll(t *testing.T) {
	fetches, failure, down := 0, error(nil), errors.New("down")
	c := cached[int]{now: time.Now, background: newBackground()}
	defer c.background.close()
	c.fetch = func(context.Context) (int, error) { fetches++; return fetches, failure }
	want := func(what string, seen, value, tries int, failed error) {
		t.Helper()
		got, err := c.renew(t.Context(), seen)
		if err != nil || got.value != value || got.tries != tries || got.err != failed || fetches != tries {
			t.Errorf("%s: got %+v, %v after %d fetches; want %d, %v after %d", what, got, err, fetches, value, failed, tries)
		}
	}
	want("first", 0, 1, 1, nil)
	want("with old knowledge", 0, 1, 1, nil)
	failure = down
	want("after a failure", 1, 1, 2, down)
	c.permitted = func() bool { return false }
	want("not permitted", 2, 1, 2, down)
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
		if got, err := c.renew(t.Context(), 0); err != nil || got.value != "found" {
			t.Errorf("the second: %+v, %v", got, err)
		}
		c.background.close()
		if _, err := c.renew(t.Context(), 1); !errors.Is(err, errClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}
