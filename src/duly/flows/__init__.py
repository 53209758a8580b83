"""What Duly does, as coroutines over ports. They await only ports: no driver, no clock, no asyncio.

So the same lines run on asyncio in production and under a seeded scheduler in a simulation.
"""
