package store_test

import (
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/storetest"
)

// The suite asks a store to count only if it says that it can.
var _ store.Counter = (*store.Memory)(nil)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, now func() time.Time) storetest.Store {
		return store.NewMemory(now)
	})
}
