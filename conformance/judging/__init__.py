"""One launch file judged: values, races and schedules within a budget, as the verdict contract says."""
