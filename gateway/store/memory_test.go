package store_test

import (
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, now func() time.Time) store.Store {
		return store.NewMemory(now)
	})
}
