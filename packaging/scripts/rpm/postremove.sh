refresh
