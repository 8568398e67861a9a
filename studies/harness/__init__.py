"""What all studies share: orders, queues, results, pages, statistics, published numbers."""
